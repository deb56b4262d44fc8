import { readdirSync, readFileSync } from 'node:fs'
import type { AnswerPlan } from './answer-plans.ts'
import type { Plan } from './connection-plans.ts'
import type { ClientVersion } from './fuzz-answers.ts'

/** What was once found by chance and is tried for ever: a file each in `kept`, with the bytes themselves. */
export interface KeptAnswer extends AnswerPlan {
  readonly kind: 'answer'
  /** What was wrong, or might be. */
  readonly what: string
  readonly client: ClientVersion
  /** Status that the client must see, or `cut`. */
  readonly outcome: string
}

export interface KeptRequest {
  readonly kind: 'request'
  readonly what: string
  /** `{key}` stands for a good key. */
  readonly bytes: string
  /** Statuses of all answers, in their order. */
  readonly statuses: readonly number[]
}

export interface KeptConnections {
  readonly kind: 'connections'
  readonly what: string
  readonly plan: Plan
}

type Kept = KeptAnswer | KeptRequest | KeptConnections

const FOLDER = new URL('./kept/', import.meta.url)

export const keptCases: readonly (readonly [name: string, kept: Kept])[] = readdirSync(FOLDER)
  .filter(name => name.endsWith('.json'))
  .sort()
  // The files are ours, and each test reads every field of its own.
  .map(name => [name.replace('.json', ''), JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as Kept])

export const keptAnswers = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'answer' ? [[name, kept] as const] : [],
)
export const keptRequests = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'request' ? [[name, kept] as const] : [],
)
export const keptConnections = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'connections' ? [[name, kept] as const] : [],
)
