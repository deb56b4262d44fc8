import { type ConnectionPlan, type Piece, piecesOf, segmentsOf } from './connection-plans.ts'
import type { Passed } from './fuzzed-connection.ts'

/** So many requests of one connection may be unanswered (contract, section 2, check 0). */
export const MAX_UNANSWERED = 8
/** A program reads up to 64 KiB at a time, and has some such reads on their way when it stops. */
const READ_AHEAD_BYTES = 4 * 64 * 1024

export interface SeenAnswer {
  readonly status: number
  /** Its `X-Request-Id`. */
  readonly id: string | null
  /** Whether it says that the connection ends. */
  readonly closes: boolean
}

/** What became of a connection, at the client and behind the listener. */
export interface SeenConnection {
  /** Whole answers, interim ones aside. */
  readonly answers: readonly SeenAnswer[]
  /** What follows the last whole answer, if that is not nothing. */
  readonly rest: string | null
  readonly ended: 'open' | 'closed' | 'reset'
  /** Names of the requests that reached the upstream, or of the keys that were issued; each as often as it did. */
  readonly effects: readonly string[]
}

/** What the pieces demand, given the answers so far. */
export interface Course {
  /** The pieces that are answered, in order, an element for each answer. */
  readonly answered: readonly Piece[]
  /** Nothing is read after the last of them. */
  readonly ends: boolean
}

/** The model: who is answered, in which order, and where the connection ends. */
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

/** A client that leaves, or no longer reads, is owed nothing. */
export function isExcused({ steps }: ConnectionPlan): boolean {
  return steps.some(step => step.do === 'destroy' || step.do === 'stay')
}

/**
 * Answers come in order, one for each request that is read; no byte after the end of a connection is read as a request.
 * @param id stands for `{id}`
 * @returns what is against the law
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
 * Nothing is read beyond the end of a connection, nor much beyond what has been answered.
 * @param values of placeholders
 * @param answerBytes size of an answer to the piece that is repeated
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
