import { type ConnectionPlan, type Piece, piecesOf, segmentsOf } from './connection-plans.ts'
import type { Passed } from './fuzzed-connection.ts'

/** Maximum number of requests of one connection without a response. */
export const MAX_UNANSWERED = 8
/** A program reads up to 64 KiB at a time, and several such reads may be under way when it stops. */
const READ_AHEAD_BYTES = 4 * 64 * 1024

export interface SeenAnswer {
  readonly status: number
  /** Its `X-Request-Id`. */
  readonly id: string | null
  /** Whether it announces the end of the connection. */
  readonly closes: boolean
}

/** What happened to a connection, at the client and behind the listener. */
export interface SeenConnection {
  /** Complete responses, without interim ones. */
  readonly answers: readonly SeenAnswer[]
  /** Bytes after the last complete response, if any. */
  readonly rest: string | null
  readonly ended: 'open' | 'closed' | 'reset'
  /** Names of requests that reached the upstream, or of keys that were issued, with repetitions. */
  readonly effects: readonly string[]
}

/** What the pieces require, given the responses so far. */
export interface Course {
  /** The pieces that get a response, in order, one for each response. */
  readonly answered: readonly Piece[]
  /** Nothing may be read after the last of them. */
  readonly ends: boolean
}

/** The model: which requests get a response, in which order, and where the connection ends. */
export function courseOf(pieces: readonly Piece[], answers: readonly SeenAnswer[]): Course {
  const answered: Piece[] = []
  for (const piece of pieces) {
    for (let count = piece.repeat ?? 1; count > 0; count--) {
      const answer = answers[answered.length]
      if (piece.optional === true && answer === undefined) return { answered, ends: true }
      answered.push(piece)
      const ends = piece.after === 'end' || (piece.after === 'as_answered' && answer?.closes === true)
      if (ends) return { answered, ends }
    }
  }
  return { answered, ends: false }
}

/** A client that disconnects or stops reading need not get a response. */
export function isExcused({ steps }: ConnectionPlan): boolean {
  return steps.some(step => step.do === 'destroy' || step.do === 'stay')
}

/**
 * Responses arrive in order, one for each request read; no byte after the end of a connection is read as a request.
 * @param id replaces `{id}`
 * @returns the violations
 */
export function breachesOfConnection(plan: ConnectionPlan, id: string, seen: SeenConnection): string[] {
  const pieces = piecesOf(plan)
  const course = courseOf(pieces, seen.answers)
  const names = new Set(pieces.flatMap(piece => (piece.marker === undefined ? [] : [nameOf(piece, id)])))
  const breaches = seen.answers.flatMap((answer, index) =>
    breachesOfAnswer(answer, course.answered[index], index, id, names),
  )
  if (!isExcused(plan)) breaches.push(...breachesOfEnd(plan, course, seen))
  return [...breaches, ...breachesOfEffects(course, id, seen)]
}

/**
 * Nothing is read after the end of a connection, nor much beyond what has been answered.
 * @param values of placeholders
 * @param answerBytes size of a response to the repeated piece
 */
export function breachesOfReading(
  plan: ConnectionPlan,
  values: Readonly<Record<string, string>>,
  answerBytes: number,
  { read, answered }: Passed,
): string[] {
  let bound = 0
  for (const piece of piecesOf(plan)) {
    const bytes = segmentsOf([piece], values).reduce((sum, { length }) => sum + length, 0)
    const { repeat = 1 } = piece
    const answers = repeat === 1 ? 1 : Math.ceil(answered / answerBytes) + MAX_UNANSWERED
    bound += (bytes / repeat) * Math.min(repeat, answers)
    if (piece.after === 'end') break
  }
  bound += READ_AHEAD_BYTES
  return read <= bound
    ? []
    : [`${read} bytes were read where ${bound} suffice for ${answered} bytes of answers`]
}

function breachesOfAnswer(
  answer: SeenAnswer,
  piece: Piece | undefined,
  index: number,
  id: string,
  names: ReadonlySet<string>,
): string[] {
  const which = `answer ${index + 1}`
  if (piece === undefined) return [`${which} (${answer.status}, ${answer.id}) belongs to no request`]
  const breaches: string[] = []
  if (!piece.statuses.includes(answer.status)) {
    breaches.push(`${which} is ${answer.status} instead of ${piece.statuses.join(' or ')}`)
  }
  const name = piece.marker === undefined ? null : nameOf(piece, id)
  const isAnothers = answer.id !== name && (piece.answeredByName === true || names.has(answer.id ?? ''))
  if (isAnothers) breaches.push(`${which} belongs to ${answer.id} instead of ${name}`)
  return breaches
}

function breachesOfEnd(plan: ConnectionPlan, course: Course, seen: SeenConnection): string[] {
  const breaches: string[] = []
  const missing = course.answered[seen.answers.length]
  if (missing !== undefined) {
    const due = `${seen.answers.length} of ${course.answered.length} answers came`
    breaches.push(`${due}, then the connection was ${seen.ended}: ${describe(missing)} has none`)
  }
  if (seen.rest !== null) breaches.push(`no whole answer: ${seen.rest}`)
  const mustEnd = course.ends || plan.steps.some(step => step.do === 'half_close')
  if (mustEnd && seen.ended === 'open') breaches.push('the connection does not end')
  return breaches
}

function breachesOfEffects(course: Course, id: string, seen: SeenConnection): string[] {
  const breaches: string[] = []
  const allowed = new Set<string>()
  for (const [index, piece] of course.answered.entries()) {
    if (piece.effect === undefined) continue
    const name = nameOf(piece, id)
    allowed.add(name)
    const isDone = [200, 201].includes(seen.answers[index]?.status ?? 0)
    if (isDone && !seen.effects.includes(name)) breaches.push(`${name} was answered and not ${piece.effect}`)
  }
  const once = new Set<string>()
  for (const name of seen.effects) {
    if (!allowed.has(name)) breaches.push(`${name} was read as a request`)
    if (once.has(name)) breaches.push(`${name} was done twice`)
    once.add(name)
  }
  return breaches
}

function nameOf({ marker = '' }: Piece, id: string): string {
  return marker.replaceAll('{id}', id)
}

function describe({ text }: Piece): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text)
}
