import type { RecordJson } from '../../src/domain/wire.ts'

type Stated<Fields> = { readonly [Name in keyof Fields]: NonNullable<Fields[Name]> }
export type AnsweredKey = Stated<RecordJson> & { readonly state: string; readonly lastUsedAt: string }

export interface AnsweredGateways {
  readonly known: number
  readonly confirmed: number
  readonly verifying: number
  readonly silent: readonly { readonly name: string; readonly lastSeenAt: string }[]
}

/**
 * Whatever the console may answer, all of it at once: what of it is there, and what is null, is what a test asserts. Read from JSON, so
 * stated and not shown.
 */
export interface AdminAnswer {
  readonly key: AnsweredKey
  readonly secret: string
  readonly replaced: AnsweredKey
  readonly announced: boolean
  readonly committedAt: string
  readonly announcedAt: string
  readonly gateways: AnsweredGateways
  readonly keys: readonly AnsweredKey[]
  readonly entries: readonly {
    readonly at: string
    readonly actor: string
    readonly action: string
    readonly keyId: string
    readonly detail: Readonly<Record<string, unknown>>
  }[]
  readonly records: Readonly<Record<string, unknown>>
  readonly workspaces: readonly {
    readonly workspaceId: string
    readonly keys: Readonly<Record<string, number>>
    readonly lastUsedAt: string
  }[]
  readonly hasMore: boolean
  readonly cursor: string
  readonly synced: number
  readonly total: number
  readonly code: string
  readonly error: string
  readonly field: string
}
