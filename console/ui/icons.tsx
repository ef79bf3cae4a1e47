/** Icons: strokes on a grid of 20 pixels, in the colour of the text. A word always stands beside or inside the label. */
const shapes = {
  home: 'M3 9.5 10 4l7 5.5M5 8.5V16h10V8.5M8.5 16v-4h3v4',
  bucket: 'M4 5.5h12l-1.5 11h-9zM4 5.5c0-1.4 2.7-2.5 6-2.5s6 1.1 6 2.5-2.7 2.3-6 2.3-6-.9-6-2.3z',
  file: 'M5 3h6l4 4v10H5zM11 3v4h4',
  folder: 'M3 5h5l2 2h7v9H3z',
  users:
    'M7.5 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-3 2.5-5 5.5-5s5.5 2 5.5 5M13 4.4a3 3 0 0 1 0 5.2M15 12.5c1.8.7 3 2.3 3 4.5',
  user: 'M10 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM4 17c0-3.3 2.7-5 6-5s6 1.7 6 5',
  database:
    'M4 5c0-1.1 2.7-2 6-2s6 .9 6 2-2.7 2-6 2-6-.9-6-2zM4 5v10c0 1.1 2.7 2 6 2s6-.9 6-2V5M4 10c0 1.1 2.7 2 6 2s6-.9 6-2',
  server: 'M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01',
  cog: 'M10 12.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4M15.3 4.7l-1.4 1.4M6.1 13.9l-1.4 1.4',
  repeat: 'M4 8a5 5 0 0 1 5-4h5M12 2l2.5 2L12 6M16 12a5 5 0 0 1-5 4H6M8 18l-2.5-2L8 14',
  bell: 'M5 14V9a5 5 0 0 1 10 0v5l1.5 1.5h-13zM8.5 17.5h3',
  list: 'M7 5h10M7 10h10M7 15h10M3.5 5h.01M3.5 10h.01M3.5 15h.01',
  trace: 'M3 5h8M6 10h9M9 15h8',
  sliders: 'M3 6h8M15 6h2M3 14h2M9 14h8M13 6a2 2 0 1 1-2-2 2 2 0 0 1 2 2zM9 14a2 2 0 1 1-2-2 2 2 0 0 1 2 2z',
  lock: 'M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9',
  chart: 'M3 3v14h14M6.5 13l3-4 2.5 2 4-5.5',
  warning: 'M10 3 2.5 16.5h15zM10 8v4M10 14.4h.01',
  error: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM7.5 7.5l5 5M12.5 7.5l-5 5',
  check: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM6.8 10.3l2.2 2.2 4.2-4.7',
  info: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM10 9v4.5M10 6.5h.01',
  clock: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM10 5.5V10l3 2',
  pause: 'M7 4.5v11M13 4.5v11',
  play: 'M6 4l10 6-10 6z',
  copy: 'M7 7h9v10H7zM4 13V3h9',
  close: 'M5 5l10 10M15 5 5 15',
  search: 'M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4',
  menu: 'M3 5h14M3 10h14M3 15h14',
  down: 'M5 8l5 5 5-5',
  up: 'M5 12l5-5 5 5',
  right: 'M8 5l5 5-5 5',
  left: 'M12 5l-5 5 5 5',
  plus: 'M10 4v12M4 10h12',
  trash: 'M4 6h12M8 6V3.5h4V6M5.5 6l.8 11h7.4l.8-11',
  edit: 'M4 16l1-4 8.5-8.5 3 3L8 15zM11.5 5.5l3 3',
  download: 'M10 3v9M6 9l4 4 4-4M3.5 16.5h13',
  upload: 'M10 13V4M6 8l4-4 4 4M3.5 16.5h13',
  external: 'M8 4H4v12h12v-4M11 3.5h5.5V9M16.5 3.5 9 11',
  key: 'M7 13a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM10.3 9.5H17v3M14 9.5v2.5',
  refresh: 'M16 10a6 6 0 1 1-1.8-4.3M16.5 3v3.5H13',
  more: 'M4.5 10h.01M10 10h.01M15.5 10h.01',
  logOut: 'M8 3.5H4v13h4M12 6.5l3.5 3.5-3.5 3.5M15 10H7.5',
} as const;

export type IconName = keyof typeof shapes;

/** Decorative: the word beside it, or the label of its button, says the same. */
export const Icon = ({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) => (
  <svg class="icon" width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
    <path d={shapes[name]} />
  </svg>
);
