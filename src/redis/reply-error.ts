import { ReplyError } from 'ioredis'

/** Whether Redis replied with an error, rather than not at all. ioredis exports the class without a type. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof ReplyError
}
