/** UTC days as text, `YYYY-MM-DD`: they sort as text, and operators read them. */

export const dayMs = 86_400_000;

export const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The first moment of a day, in ms. */
export const startOfDay = (day: string): number => Date.parse(`${day}T00:00:00Z`);

export const addDays = (day: string, days: number): string => toDay(startOfDay(day) + days * dayMs);

/** Whether a text is a day of the calendar; 2026-02-30 is none. */
export const isDay = (text: string): boolean => {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const ms = startOfDay(text);
  return !Number.isNaN(ms) && toDay(ms) === text;
};
