import type { RecordJson } from '../../src/domain/wire.ts'

type Stated<Fields> = { readonly [Name in keyof Fields]: NonNullable<Fields[Name]> }
export type AnsweredKey = Stated<RecordJson> & { readonly state: string; readonly lastUsedAt: string }

export interface AnsweredGateways {
  readonly known: number
  readonly confirmed: number
  readonly verifying: number
  readonly silent: readonly { readonly name: string; readonly lastSeenAt: string }[]
}

export interface AnsweredToken {
  readonly id: string
  readonly name: string
  readonly hint: string
  readonly permissions: readonly string[]
  readonly workspaces: readonly string[]
  readonly createdAt: string
  readonly createdBy: string
  readonly expiresAt: string
  readonly revokedAt: string
  readonly lastUsedAt: string
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
    readonly id: string
    readonly at: string
    readonly workspaceId: string
    readonly actor: string
    readonly action: string
    readonly keyId: string
    readonly detail: Readonly<Record<string, unknown>>
  }[]
  readonly hasMore: boolean
  readonly token: AnsweredToken
  readonly tokens: readonly AnsweredToken[]
  readonly records: Readonly<Record<string, unknown>>
  readonly cursor: string
  readonly synced: number
  readonly total: number
  readonly code: string
  readonly error: string
}
