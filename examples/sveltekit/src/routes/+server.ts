export const GET = (): Response => new Response('the application’s own page');
