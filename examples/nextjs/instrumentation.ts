/** Next.js runs it once, before the first request. */
export async function register(): Promise<void> {
  if (process.env['NEXT_RUNTIME'] !== 'nodejs') return;
  const { openStorage } = await import('./storage');
  await openStorage();
}
