import type { WorkspaceKeyCounts } from '../search/count-in-workspace.ts'
import type { KeyList } from './key-list-query.ts'
import type { KeyView } from './key-parts.ts'

export interface KeysView {
  /** Null: keys of all workspaces. */
  readonly workspaceId: string | null
  readonly keys: readonly KeyView[]
  readonly list: KeyList
  readonly scopes: readonly string[]
  /** Null in a list of all workspaces. */
  readonly counts: WorkspaceKeyCounts | null
  /** Keys on all pages of a filtered list; null if they were not counted. */
  readonly matches: number | null
  /** Where the next page starts; null on the last. */
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}
