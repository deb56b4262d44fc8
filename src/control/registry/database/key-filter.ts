import type { Expression, ExpressionBuilder, SqlBool } from 'kysely'
import type { Tables } from './tables.ts'

/** Which keys of a workspace are listed. `expiring` ones are among the active. */
export const KEY_FILTERS = ['active', 'expiring', 'retiring', 'expired', 'revoked'] as const
export type KeyFilter = (typeof KEY_FILTERS)[number]

/** Keys in a state at a moment, in ms since the epoch. */
export interface KeySelection {
  readonly filter: KeyFilter
  readonly nowMs: number
  /** Until when an active key counts as expiring. */
  readonly soonMs: number
}

/** The states of `keyState`, said to a database. */
export function isSelected(
  row: ExpressionBuilder<Tables, 'keys'>,
  { filter, nowMs, soonMs }: KeySelection,
): Expression<SqlBool> {
  const alive = [row('revoked_at_ms', 'is', null), row('expires_at_ms', '>', nowMs)]
  switch (filter) {
    case 'revoked':
      return row('revoked_at_ms', 'is not', null)
    case 'expired':
      return row.and([row('revoked_at_ms', 'is', null), row('expires_at_ms', '<=', nowMs)])
    case 'retiring':
      return row.and([...alive, row('replaced_by', 'is not', null)])
    case 'active':
      return row.and([...alive, row('replaced_by', 'is', null)])
    case 'expiring':
      return row.and([...alive, row('replaced_by', 'is', null), row('expires_at_ms', '<=', soonMs)])
  }
}
