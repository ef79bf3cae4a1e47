/** A part of the page that scrolls by itself: reached with the keyboard, and named. */
import type { ComponentChildren, Ref } from 'preact';

interface ScrollRegionProps {
  readonly label: string;
  /** Also up and down, with a limited height. */
  readonly isTall?: boolean;
  readonly region?: Ref<HTMLElement>;
  readonly children: ComponentChildren;
}

export const ScrollRegion = ({ label, isTall = false, region, children }: ScrollRegionProps) => (
  <section
    class={isTall ? 'table-region is-virtual' : 'table-region'}
    ref={region}
    aria-label={label}
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys scroll what has the focus.
    tabIndex={0}
  >
    {children}
  </section>
);
