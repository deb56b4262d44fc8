import type { KeyState } from '../../../domain/key/key-record.ts'
import { resumeKey, revokeKey, suspendKey } from './key-operations.ts'

export interface Step {
  readonly change: typeof revokeKey
  /** The states in which pages offer it. */
  readonly from: readonly KeyState[]
}

/** Changes of the state of a key, of one key or of several that were selected. */
export const STATE_STEPS = {
  suspend: { change: suspendKey, from: ['active', 'retiring'] },
  resume: { change: resumeKey, from: ['suspended'] },
  revoke: { change: revokeKey, from: ['active', 'retiring', 'suspended'] },
} as const satisfies Readonly<Record<string, Step>>
export type StateStep = keyof typeof STATE_STEPS
// `Object.keys` forgets the type of a closed record's keys.
const NAMES = Object.keys(STATE_STEPS) as readonly StateStep[]

/** The steps that are offered for a key in this state; none once it has ended. */
export function stepsFrom(state: KeyState): readonly StateStep[] {
  return NAMES.filter(name => {
    const { from }: Step = STATE_STEPS[name]
    return from.includes(state)
  })
}
