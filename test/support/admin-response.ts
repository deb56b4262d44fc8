import type { RecordJson } from '../../src/domain/wire.ts'

type Stated<Fields> = { readonly [Name in keyof Fields]: NonNullable<Fields[Name]> }
export type KeyResponse = Stated<RecordJson> & { readonly state: string; readonly lastUsedAt: string }

export interface GatewaysResponse {
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
 * Every field that an admin response can have. A test asserts which of them are present or null. The JSON is trusted
 * here and not validated.
 */
export interface AdminResponse {
  readonly key: KeyResponse
  readonly secret: string
  readonly replaced: KeyResponse
  readonly announced: boolean
  readonly committedAt: string
  readonly announcedAt: string
  readonly gateways: GatewaysResponse
  /** Only of a console with regions. */
  readonly regions: readonly {
    readonly name: string
    readonly announced: boolean
    readonly gateways: GatewaysResponse | null
  }[]
  readonly revoked: number
  readonly keys: readonly KeyResponse[]
  readonly entries: readonly {
    readonly id: string
    readonly at: string
    readonly workspaceId: string
    readonly actor: string
    readonly action: string
    readonly keyId: string
    readonly detail: Readonly<Record<string, unknown>>
  }[]
  readonly refusals: readonly {
    readonly requestId: string
    readonly keyId: string
    readonly reason: string
  }[]
  readonly windows: readonly { readonly policy: string; readonly remaining: number | null }[]
  readonly limits: readonly {
    readonly workspaceId: string
    readonly keyId: string | null
    readonly policy: string
    readonly used: number
    readonly reportedAt: string
  }[]
  readonly deliveries: readonly { readonly type: string }[]
  readonly hasMore: boolean
  readonly token: AnsweredToken
  readonly tokens: readonly AnsweredToken[]
  readonly records: Readonly<Record<string, unknown>>
  readonly workspaces: readonly {
    readonly workspaceId: string
    readonly keys: Readonly<Record<string, number>>
    readonly lastUsedAt: string
  }[]
  readonly cursor: string
  readonly synced: number
  readonly total: number
  readonly code: string
  readonly error: string
  readonly field: string
}
