import type { FastifyInstance } from 'fastify'
import type { ProtectedCall } from './http/calls.ts'

/** One thing that the console can do. `app.ts` lists them; they start in its order and stop in the opposite one. */
export interface Capability {
  /** Its part of the admin API. */
  readonly calls?: readonly ProtectedCall[]
  /** Its pages, in a scope that identifies people and parses forms. */
  readonly registerPages?: (scope: FastifyInstance) => void
  /** Its routes that need neither session nor token. */
  readonly registerOpen?: (app: FastifyInstance) => void
  readonly start?: () => void
  /** Deletes rows past their retention; called once a minute. */
  readonly purge?: () => Promise<void>
  /** Called once the listeners have ended. */
  readonly stop?: () => Promise<void>
}
