import { ReplyError } from 'ioredis'

/** Whether Redis answered with an error, as opposed to not answering. ioredis exports the class without a type. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof ReplyError
}
