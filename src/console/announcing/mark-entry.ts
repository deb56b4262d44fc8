import { RECORD_RANGE_END, recordKeyName } from '../../domain/wire.ts'
import type { AnnouncingRedis } from '../../redis/announcing-connection.ts'
import { isOtherType } from '../../redis/answering.ts'

/** An entry by which a console recognises a Redis. */
export interface MarkEntry {
  /** Each copy, empty if there is none. Those of nodes that do not answer are left out, unless none does. */
  read(): Promise<readonly string[]>
  /** Sent at once, on the connection of now. @returns whether each copy is written */
  write(text: string): Promise<boolean>
}

/** With the rights of the script that announces. */
const WRITE = `return redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])`
/** Long enough to be kept where Redis evicts what expires soon. */
const LIFE_MS = 10 * 366 * 86_400_000
/** In a cluster: a node that is lost for good must not keep the others from being recognised. Few nodes have none of so many. */
const COPIES_IN_CLUSTER = 16

/** Beside the records, where a console may write: no digest has its name. */
export function createMarkEntry(connection: AnnouncingRedis, region: string): MarkEntry {
  const copies = connection.isOneServer
    ? ['']
    : Array.from({ length: COPIES_IN_CLUSTER }, (_, copy) => `-${copy}`)
  const names = copies.map(copy => recordKeyName(`announced-${region}${copy}`))
  return {
    async read() {
      const read = names.map(name => connection.getrangeBuffer(name, 0, RECORD_RANGE_END).catch(emptyIfOther))
      return (await anyFulfilled(read)).map(String)
    },
    async write(text) {
      const expiresAtMs = Date.now() + LIFE_MS
      const writes = names.map(name => connection.callBuffer('eval', WRITE, 1, name, text, expiresAtMs))
      return (await anyFulfilled(writes)).length === writes.length
    },
  }
}

function emptyIfOther(error: unknown): string {
  if (isOtherType(error)) return ''
  throw error
}

/** @throws the first error if all are rejected */
async function anyFulfilled<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  const results = await Promise.allSettled(promises)
  const fulfilled = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
  if (fulfilled.length > 0) return fulfilled
  throw results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))[0]
}
