import { recordKeyName } from '../../domain/wire.ts'
import type { AnnouncingRedis } from '../../redis/announcing-connection.ts'

/** A counter of a rate limit, as Redis has it. */
interface CounterReading {
  readonly used: number
  readonly endsInMs: number
}

/**
 * Each in the order of their names; null for one that does not exist. Otherwise why nothing is known: the console has no Redis (`off`), its
 * user lacks the right (`denied`), or Redis gave no usable answer (`failed`).
 */
export type CounterReadings = readonly (CounterReading | null)[] | 'off' | 'denied' | 'failed'

/**
 * Asks for its rights first: a command that is denied would replace the connection, which heartbeats need. GETRANGE reads no more than a
 * number has, also of a longer entry.
 */
const READ_COUNTERS = `
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end
local counters = {}
for _, name in ipairs(ARGV) do
  if not (may('GETRANGE', name, 0, 15) and may('PTTL', name)) then return 'denied' end
  local used = redis.pcall('GETRANGE', name, 0, 15)
  local ttl = redis.pcall('PTTL', name)
  if type(used) == 'table' or type(ttl) == 'table' then return 'unreadable' end
  counters[#counters + 1] = used
  counters[#counters + 1] = ttl
end
return counters`

const WHOLE_NUMBER = /^\d{1,15}$/
/** What PTTL says of a key that does not exist, or does not expire. */
const ABSENT = -2
const WITHOUT_END = -1

/** Never rejects. @param names all of this workspace */
export async function readCounters(
  connection: AnnouncingRedis,
  workspaceId: string,
  names: readonly string[],
): Promise<CounterReadings> {
  if (connection.status !== 'ready') return 'failed'
  // In a cluster this key, which does not exist, leads to the node of the counters. The console may evaluate no script on theirs.
  const key = recordKeyName(`{${workspaceId}}`)
  try {
    return parseCounters(await connection.callBuffer('eval', READ_COUNTERS, 1, key, ...names))
  } catch {
    return 'failed' // The connection has noted it.
  }
}

/** @param reply of the script: for each counter its text and its time to live, else a word */
export function parseCounters(reply: unknown): CounterReadings {
  if (!Array.isArray(reply)) return String(reply) === 'denied' ? 'denied' : 'failed'
  const values: readonly unknown[] = reply
  const counters: (CounterReading | null)[] = []
  for (let at = 0; at < values.length; at += 2) {
    const [used, ttlMs] = [String(values[at]), Number(values[at + 1])]
    if (used === '' || ttlMs === ABSENT) counters.push(null)
    else if (!WHOLE_NUMBER.test(used)) return 'failed'
    else
      counters.push({
        used: Number(used),
        endsInMs: ttlMs === WITHOUT_END ? Number.POSITIVE_INFINITY : ttlMs,
      })
  }
  return counters
}
