import type { KeyRecord, KeyState } from '../../../domain/key/key-record.ts'

export const KEY_SORTS = ['createdAt', 'expiresAt', 'lastUsedAt', 'name'] as const
export type KeySort = (typeof KEY_SORTS)[number]

/** Which keys: every condition that is not null must hold. */
export interface KeySelector {
  /** Null: all workspaces. */
  readonly workspaceIds: readonly string[] | null
  readonly state: KeyState | null
  /** A part of the name, id, hint or description, in any case; not a pattern. */
  readonly text: string | null
  readonly scope: string | null
  readonly expiresBeforeMs: number | null
  readonly createdBeforeMs: number | null
  /** A key that was never used counts as last used before any time. */
  readonly lastUsedBeforeMs: number | null
}

/** One page of keys. */
export interface KeyQuery extends KeySelector {
  readonly sort: KeySort
  readonly descending: boolean
  readonly limit: number
  /** The page starts after this position; null: at the start. */
  readonly after: KeyPosition | null
}

/** A place in a sorted list of keys. */
export interface KeyPosition {
  /** The sorted value: a name or ms since the epoch; 0 for the last use of a key that was never used. */
  readonly value: string | number
  /** Decides between equal values. */
  readonly id: string
}

export interface FoundKey {
  readonly record: KeyRecord
  readonly digest: string
  readonly lastUsedAtMs: number | null
}

export interface KeySearchPage {
  readonly keys: readonly FoundKey[]
  /**
   * Cursor of the next page; null on the last. A rare match can leave a page short, even empty, before the last: a page
   * examines a bounded number of keys.
   */
  readonly nextCursor: string | null
}

/** One page of workspaces that have keys, by id. */
export interface WorkspaceQuery {
  /** Null: all workspaces. */
  readonly workspaceIds: readonly string[] | null
  /** A part of the workspace id, in any case. */
  readonly text: string | null
  readonly limit: number
  readonly afterId: string | null
  /** Keys that are counted for the page, in all; null: every key. */
  readonly maxKeysCounted: number | null
}

export interface WorkspaceSummary {
  readonly workspaceId: string
  readonly keys: Readonly<Record<KeyState, number>>
  /** The workspace has more keys than this, and no more were counted; null: all were. */
  readonly moreThan: number | null
  /** Active keys that expire within `EXPIRING_SOON_MS`. */
  readonly expiringSoon: number
  readonly lastUsedAtMs: number | null
}

export const EXPIRING_SOON_MS = 14 * 86_400_000

export interface WorkspacePage {
  readonly workspaces: readonly WorkspaceSummary[]
  /** Where the next page starts; null on the last. As with keys, a page can be short. */
  readonly nextAfterId: string | null
}

/** Whether the selector leaves out any key of its workspaces. */
export function hasConditions(selector: KeySelector): boolean {
  const { state, text, scope, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = selector
  return [state, text, scope, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs].some(
    value => value !== null,
  )
}
