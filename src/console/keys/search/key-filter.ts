import type { Expression, ExpressionBuilder, SqlBool } from 'kysely'
import type { Tables } from '../../platform/database/tables.ts'

/** Filters of the key list; `expiring` keys are also `active`. */
export const KEY_FILTERS = ['active', 'expiring', 'retiring', 'suspended', 'expired', 'revoked'] as const
export type KeyFilter = (typeof KEY_FILTERS)[number]

/** Keys in a state at a moment, in ms since the epoch. */
interface KeySelection {
  readonly filter: KeyFilter
  readonly nowMs: number
  /** An active key that expires before this counts as expiring. */
  readonly soonMs: number
}

/** The states of `keyState` as SQL conditions. */
export function isSelected(
  row: ExpressionBuilder<Tables, 'keys'>,
  { filter, nowMs, soonMs }: KeySelection,
): Expression<SqlBool> {
  const unended = [row('revoked_at_ms', 'is', null), row('expires_at_ms', '>', nowMs)]
  const working = [...unended, row('suspended_at_ms', 'is', null)]
  switch (filter) {
    case 'revoked':
      return row('revoked_at_ms', 'is not', null)
    case 'expired':
      return row.and([row('revoked_at_ms', 'is', null), row('expires_at_ms', '<=', nowMs)])
    case 'suspended':
      return row.and([...unended, row('suspended_at_ms', 'is not', null)])
    case 'retiring':
      return row.and([...working, row('replaced_by', 'is not', null)])
    case 'active':
      return row.and([...working, row('replaced_by', 'is', null)])
    case 'expiring':
      return row.and([...working, row('replaced_by', 'is', null), row('expires_at_ms', '<=', soonMs)])
  }
}
