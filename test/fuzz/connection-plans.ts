import { CONSOLE_PIECES, GATEWAY_PIECES, TINY } from './connection-pieces.ts'
import { chance } from './mutate.ts'

export type Listener = 'gateway' | 'console'

/**
 * Bytes that belong together, usually one request, and what RFC 9112 and the contract require for them.
 *
 * In `text` a character is a byte. `{id}` is the name of the connection; `{key}`, `{forged}` and `{token}` are
 * credentials; `{cut}` is the end of a segment; `{length}` is the length of what follows the first empty line.
 * `{chunk}` and `{/chunk}` enclose a chunk.
 */
export interface Piece {
  readonly text: string
  /** The response has one of these statuses. */
  readonly statuses: readonly number[]
  /** `as_answered`: the response itself says whether the connection stays open. */
  readonly after: 'open' | 'end' | 'as_answered'
  /** Name of the request, sent as `X-Request-Id`. */
  readonly marker?: string
  /** The response must carry the marker; otherwise any id except the name of another request. */
  readonly answeredByName?: true
  /** Permitted effect of the request, under its marker: reaching the upstream, or issuing a key of that name. */
  readonly effect?: 'forwarded' | 'issued'
  /** A response to HEAD has no body. */
  readonly bodiless?: true
  /** The client may have ended its side too early for a response. */
  readonly optional?: true
  /** Number of repetitions. */
  readonly repeat?: number
}

export type Step =
  | { readonly do: 'send'; readonly pieces: readonly Piece[] }
  /** Waits for responses to everything sent so far. */
  | { readonly do: 'await_answers' }
  | { readonly do: 'stop_reading' | 'read' | 'read_slowly' }
  /** The client ends its side and keeps reading. */
  | { readonly do: 'half_close' }
  | { readonly do: 'destroy' }
  /** The last step: the client neither ends its side nor sends, and reads as before. The listener must close the connection. */
  | { readonly do: 'stay' }

export interface ConnectionPlan {
  readonly listener: Listener
  readonly steps: readonly Step[]
}

/** Connections that are used at the same time. */
export type Plan = readonly ConnectionPlan[]

const PLACEHOLDER = /\{\/?[a-z]+\}/g

/** Per plan. */
export const MOST_CONNECTIONS = 3

/** The same seed gives the same plan. */
export function connectionsPlan(seed: number): Plan {
  const random = chance(seed)
  const count = random() < 0.7 ? 1 : 1 + Math.floor(random() * MOST_CONNECTIONS)
  return Array.from({ length: count }, () => connectionPlan(random))
}

/** The bytes of pieces, in segments. @param values of the placeholders */
export function segmentsOf(pieces: readonly Piece[], values: Readonly<Record<string, string>>): Buffer[] {
  const text = pieces.map(piece => render(piece.text, values).repeat(piece.repeat ?? 1)).join('')
  return text.split(CUT).map(segment => Buffer.from(segment, 'latin1'))
}

const CUT = '{cut}'

function render(text: string, values: Readonly<Record<string, string>>): string {
  const filled = text
    .replace(/\{([a-z]+)\}/g, (found, name: string) => values[name] ?? found)
    .replace(/\{chunk\}(.*?)\{\/chunk\}/gs, (_found, chunk: string) => {
      return `${bytesIn(chunk).toString(16)}\r\n${chunk}\r\n`
    })
  const body = filled.replaceAll(CUT, '').split('\r\n\r\n').slice(1).join('\r\n\r\n')
  return filled.replace('{length}', String(body.length))
}

function bytesIn(text: string): number {
  return text.replaceAll(CUT, '').length
}

export function piecesOf({ steps }: ConnectionPlan): Piece[] {
  return steps.flatMap(step => (step.do === 'send' ? step.pieces : []))
}

function connectionPlan(random: () => number): ConnectionPlan {
  const listener = random() < 0.7 ? 'gateway' : 'console'
  const pieces = piecesFor(listener, random)
  const steps: Step[] = []
  while (pieces.length > 0) {
    // Half of all segments contain everything that remains.
    const count = random() < 0.5 ? pieces.length : 1 + Math.floor(random() * pieces.length)
    steps.push({ do: 'send', pieces: pieces.splice(0, count) })
    const next = random()
    if (next < 0.35) steps.push({ do: 'await_answers' })
    else if (next < 0.43) steps.push({ do: 'stop_reading' })
    else if (next < 0.5) steps.push({ do: 'read_slowly' })
    else if (next < 0.6) steps.push({ do: 'read' })
  }
  return { listener, steps: [...steps, ...ending(listener, random)] }
}

function piecesFor(listener: Listener, random: () => number): Piece[] {
  const kinds = listener === 'gateway' ? GATEWAY_PIECES : CONSOLE_PIECES
  const pick = <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(random() * items.length)]
  let number = 0
  const piece = (from: readonly PieceMaker[]): Piece[] => {
    const made = pick(from)?.(`{id}-${number++}`, random)
    return made === undefined ? [] : [cut(made, random)]
  }
  const length = random() < 0.15 ? 10 + Math.floor(random() * 30) : 1 + Math.floor(random() * 7)
  // Most requests are valid, so that input that ends a connection has some before and after it.
  return Array.from({ length }, () => piece(random() < 0.75 ? kinds.lawful : kinds.ending)).flat()
}

export type PieceMaker = (marker: string, random: () => number) => Piece

function ending(listener: Listener, random: () => number): Step[] {
  const kinds = listener === 'gateway' ? GATEWAY_PIECES : CONSOLE_PIECES
  const read: Step = { do: 'read' }
  const partial = kinds.partial('{id}-last', random)
  const way = random()
  if (way < 0.3) return [read, { do: 'send', pieces: [kinds.last('{id}-last', random)] }]
  if (way < 0.55) return [read, { do: 'half_close' }]
  if (way < 0.62) {
    return [read, { do: 'send', pieces: [{ ...partial, optional: true }] }, { do: 'half_close' }]
  }
  if (way < 0.75) return [{ do: 'destroy' }]
  if (way < 0.82 && listener === 'gateway') return [read, { do: 'send', pieces: [partial] }]
  if (way < 0.84 && listener === 'gateway') return [{ do: 'stop_reading' }, { do: 'stay' }]
  if (way < 0.86 && listener === 'gateway') {
    return [{ do: 'stop_reading' }, { do: 'send', pieces: [FLOOD] }, { do: 'stay' }]
  }
  if (way < 0.88 && listener === 'gateway') return [read, { do: 'send', pieces: [FLOOD] }]
  return [read]
}

const FLOOD: Piece = { text: TINY, statuses: [404], after: 'open', repeat: 4_000 }

/** Ends a segment at up to two positions, none of them within a placeholder. */
function cut(piece: Piece, random: () => number): Piece {
  if (random() < 0.6) return piece
  let { text } = piece
  for (let cuts = 1 + Math.floor(random() * 2); cuts > 0; cuts--) {
    const at = Math.floor(random() * text.length)
    if (!isWithinPlaceholder(text, at)) text = `${text.slice(0, at)}{cut}${text.slice(at)}`
  }
  return { ...piece, text }
}

function isWithinPlaceholder(text: string, at: number): boolean {
  return [...text.matchAll(PLACEHOLDER)].some(
    ({ 0: found, index }) => index < at && at < index + found.length,
  )
}
