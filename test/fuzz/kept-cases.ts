import { readdirSync, readFileSync } from 'node:fs'
import type { AnswerPlan } from './answer-plans.ts'
import type { Plan } from './connection-plans.ts'
import type { ClientVersion } from './fuzz-answers.ts'

/** Earlier findings that every run repeats: one file each in `kept`, with the bytes themselves. */
export interface KeptResponse extends AnswerPlan {
  readonly kind: 'answer'
  /** The defect, or the possible one. */
  readonly what: string
  readonly client: ClientVersion
  /** Expected status, or `cut`. */
  readonly outcome: string
}

export interface KeptRequest {
  readonly kind: 'request'
  readonly what: string
  /** `{key}` stands for a valid key. */
  readonly bytes: string
  /** Expected statuses of all responses, in order. */
  readonly statuses: readonly number[]
}

export interface KeptConnections {
  readonly kind: 'connections'
  readonly what: string
  readonly plan: Plan
}

type Kept = KeptResponse | KeptRequest | KeptConnections

const FOLDER = new URL('./kept/', import.meta.url)

export const keptCases: readonly (readonly [name: string, kept: Kept])[] = readdirSync(FOLDER)
  .filter(name => name.endsWith('.json'))
  .sort()
  // The files belong to the project, and each test reads every field.
  .map(name => [name.replace('.json', ''), JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as Kept])

export const keptResponses = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'answer' ? [[name, kept] as const] : [],
)
export const keptRequests = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'request' ? [[name, kept] as const] : [],
)
export const keptConnections = keptCases.flatMap(([name, kept]) =>
  kept.kind === 'connections' ? [[name, kept] as const] : [],
)
