/** The handlers of every action of IAM and STS; `handlers/table.ts` has them among all others. */
import * as accessKeys from './access-keys.ts';
import { GetCallerIdentity } from './get-caller-identity.ts';
import {
  CreateUser,
  DeleteUser,
  GetUser,
  ListUsers,
  ListUserTags,
  TagUser,
  UntagUser,
  UpdateUser,
} from './users.ts';

export const actions = {
  ...accessKeys,
  CreateUser,
  UpdateUser,
  DeleteUser,
  TagUser,
  UntagUser,
  GetUser,
  ListUsers,
  ListUserTags,
  GetCallerIdentity,
};
