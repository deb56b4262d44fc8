import { isReplyError } from './reply-error.ts'

/**
 * The nodes of a cluster fail one by one: a good answer of one of them shows that the cluster is there.
 * @throws the first error that Redis answered, else the first error
 */
export async function anyGoodAnswer<Reply>(answers: readonly Promise<Reply>[]): Promise<Reply> {
  try {
    return await Promise.any(answers)
  } catch (error) {
    const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error]
    throw errors.find(isReplyError) ?? errors[0]
  }
}
