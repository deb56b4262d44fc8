import { recordKeyName } from '../domain/wire.ts'

/** The beginning of a script that returns an error for a command which the user may not run. It leaves no line in ACL LOG. */
export const NEED = `
local function need(...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
    return redis.error_reply("NOPERM User has no permissions to run the '" .. string.lower(...) .. "' command here")
  end
end`

/** Beside the records, where a console may write: no digest has its name. It does not expire, so that Redis evicts records before it. */
const NAME = recordKeyName('written')
/** Some dozens of consoles: those that wrote last come first, and the others are cut off. */
const RANGE_END = 4_095
/** Messages of this connection, which are heartbeats, without a write of another one, after which that counts as silent. */
const SILENT_AFTER = 4

/**
 * Increases the number of this connection in the list of all. A message is published only if the number is above the highest that is
 * known: a heartbeat must not confirm data that lacks a change. With a message the list is returned as well.
 */
const COUNT = `${NEED}
local denied = need('GETRANGE', KEYS[1], 0, 0) or need('SET', KEYS[1], '') or need('PUBLISH', ARGV[3], '')
if denied then return denied end
local list = redis.pcall('GETRANGE', KEYS[1], 0, ${RANGE_END})
if type(list) == 'table' then
  if not string.find(list.err, 'WRONGTYPE', 1, true) then return list end
  list = ''
end
local own = ARGV[1] .. '=(%d+),'
local count = (tonumber(string.match(list, own)) or 0) + 1
redis.call('SET', KEYS[1], ARGV[1] .. '=' .. count .. ',' .. string.gsub(list, own, ''))
if ARGV[4] ~= '' and count > tonumber(ARGV[2]) then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
return { count, ARGV[4] ~= '' and list or '' }`

interface WriteCounterParts {
  readonly evaluate: (...values: (string | number)[]) => Promise<unknown>
  /** Redis has lost writes that it had confirmed on this connection. */
  readonly onLost: () => void
  /** Another console writes no more, and would not find a loss of its last writes. Once each time that it stops. */
  readonly onOtherSilent: () => void
}

/** Another connection, as the list shows it. */
interface Other {
  readonly count: string
  /** Messages since its number was another; infinity if it has not written since this connection began. */
  readonly messages: number
}

/**
 * Counts the writes of a connection in the data of Redis: a number that is not above one that Redis has answered before shows that the data
 * went back, also behind a proxy that keeps the connection. Each connection has its own, since writes of another console would make up
 * for lost ones.
 */
export class WriteCounter {
  readonly #parts: WriteCounterParts
  readonly #own = crypto.randomUUID().replaceAll('-', '')
  #highest = 0
  /** By their names; null before the first message. */
  #others: ReadonlyMap<string, Other> | null = null

  constructor(parts: WriteCounterParts) {
    this.#parts = parts
  }

  /** The connection is new: what this server lacks is found without the counter. */
  reset(): void {
    this.#highest = 0
    this.#others = null
  }

  /**
   * Counts what was sent before in this turn, and publishes a message.
   * @param message empty: there is none
   * @returns false if data went back: then nothing is published
   */
  async count(channel: string, message = ''): Promise<boolean> {
    const known = this.#highest
    const reply = await this.#parts.evaluate(COUNT, 1, NAME, this.#own, known, channel, message)
    // The script returns these two.
    const [count, list] = reply as readonly [number, Buffer]
    const isAhead = count > known
    // A command that was sent at the same time may have found it.
    const isFound = known > this.#highest
    this.#highest = isAhead || isFound ? Math.max(count, this.#highest) : count
    if (!isAhead && !isFound) this.#parts.onLost()
    if (message !== '') this.#compareOthers(String(list))
    return isAhead
  }

  #compareOthers(list: string): void {
    const before = this.#others
    const ofNew = before === null ? Number.POSITIVE_INFINITY : 0
    const others = new Map<string, Other>()
    for (const entry of list.split(',').slice(0, -1)) {
      const [name = '', count = ''] = entry.split('=')
      if (name === this.#own) continue
      const known = before?.get(name)
      const messages = known?.count === count ? known.messages + 1 : ofNew
      others.set(name, { count, messages })
    }
    this.#others = others
    if ([...others.values()].some(({ messages }) => messages === SILENT_AFTER)) this.#parts.onOtherSilent()
  }
}
