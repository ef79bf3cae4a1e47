/** GetOpenApi: the document that describes this API. */
import { adminOpenApi } from '../../../protocol/operations/openapi.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const GetOpenApi: AdminHandler<'GetOpenApi'> = async () => jsonReply(adminOpenApi());
