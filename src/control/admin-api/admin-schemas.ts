import { type Static, type TObject, type TProperties, Type } from 'typebox'
import { EXPIRES_AT_EXPECTED, EXPIRES_IN_DAYS_EXPECTED } from '../../domain/key/issue-key.ts'
import { ALLOWED_CIDRS_EXPECTED, DESCRIPTION_EXPECTED, NAME_EXPECTED } from '../../domain/key/key-fields.ts'
import { MAX_VERSION } from '../../domain/key/key-record.ts'
import { OVERLAP_EXPECTED } from '../../domain/key/rotate-key.ts'
import {
  MAX_TOKEN_WORKSPACES,
  PERMISSIONS_EXPECTED,
  TOKEN_WORKSPACES_EXPECTED,
} from '../access/admin-token.ts'
import { KEY_QUERY_EXPECTED } from '../registry/search/parse-key-query.ts'
import { SEQUENCE_EXPECTED, USED_EXPECTED } from '../usage/usage-report.ts'

/** Schemas check types; the domain validates values, with the same wording. */
const closed = { additionalProperties: false }
/** Query parameters are text: 1 to 200 in plain digits. */
const PAGE_LIMIT = '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$'
const ULID = '[0-9A-HJKMNP-TV-Z]{26}'
const INSTANT =
  '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{1,3})?(?:Z|[+-][0-9]{2}:[0-9]{2})$'

const description = Type.Union([Type.String(), Type.Null()])
const allowedCidrs = Type.Union([Type.Array(Type.String()), Type.Null()])

export const issueBody = Type.Object(
  {
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    description: Type.Optional(description),
    allowedCidrs: Type.Optional(allowedCidrs),
    expiresInDays: Type.Optional(Type.Number()),
    expiresAt: Type.Optional(Type.String()),
  },
  closed,
)
export type IssueBody = Static<typeof issueBody>

/** Clients without anything to send may send an empty object or no body. */
const optionalBody = <Properties extends TProperties>(properties: Properties) =>
  Type.Unsafe<Static<TObject<Properties>> | null>({
    ...Type.Object(properties, closed),
    type: ['object', 'null'],
  })

/** Of calls whose path says everything: revoke, suspend, resume, revoke-all. */
export const emptyBody = optionalBody({})

export const editBody = Type.Object(
  {
    name: Type.Optional(Type.String()),
    description: Type.Optional(description),
    expiresAt: Type.Optional(Type.String()),
    allowedCidrs: Type.Optional(allowedCidrs),
  },
  closed,
)
export type EditBody = Static<typeof editBody>

/** @property wait answers once at least one gateway is known and all have confirmed, or after a second */
export const waitQuery = Type.Object({ wait: Type.Optional(Type.Literal('1')) }, closed)
export type WaitQuery = Static<typeof waitQuery>

export const rotateBody = optionalBody({
  overlapSeconds: Type.Optional(Type.Number()),
  expiresInDays: Type.Optional(Type.Number()),
  expiresAt: Type.Optional(Type.String()),
})
export type RotateBody = Static<typeof rotateBody>

export const syncBody = optionalBody({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  cursor: Type.Optional(Type.String({ pattern: `^[0-9]{1,15}\\.key_${ULID}$` })),
})
export type SyncBody = Static<typeof syncBody>

export const lookupsBody = Type.Object(
  { digests: Type.Array(Type.String({ pattern: '^[0-9a-f]{64}$' }), { minItems: 1, maxItems: 256 }) },
  closed,
)
export type LookupsBody = Static<typeof lookupsBody>

export const confirmationsBody = Type.Object(
  {
    gateway: Type.Object(
      {
        id: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
        name: Type.String({ pattern: '^[A-Za-z0-9._-]{1,253}$' }),
      },
      closed,
    ),
    hearing: Type.Boolean(),
    leaving: Type.Boolean(),
    confirmed: Type.Array(
      Type.Object(
        {
          digest: Type.String({ pattern: '^[0-9a-f]{64}$' }),
          version: Type.Integer({ minimum: 1, maximum: MAX_VERSION }),
        },
        closed,
      ),
      { maxItems: 1000 },
    ),
  },
  closed,
)
export type ConfirmationsBody = Static<typeof confirmationsBody>

const text = Type.Optional(Type.String())

/** `parseKeyQuery` checks the values. */
export const searchQuery = Type.Object(
  {
    workspaceId: text,
    state: text,
    q: text,
    scope: text,
    expiresBefore: text,
    createdBefore: text,
    lastUsedBefore: text,
    sort: text,
    limit: text,
    cursor: text,
    count: Type.Optional(Type.Literal('1')),
  },
  closed,
)
export type SearchQuery = Static<typeof searchQuery>

const WORKSPACE_CURSOR = '^[A-Za-z0-9._~-]{1,128}$'
export const workspacesQuery = Type.Object(
  {
    q: text,
    limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT })),
    cursor: Type.Optional(Type.String({ pattern: WORKSPACE_CURSOR })),
  },
  closed,
)
export type WorkspacesQuery = Static<typeof workspacesQuery>

const DIGEST = '^[0-9a-f]{64}$'
export const findBody = Type.Object({ digest: Type.String({ pattern: DIGEST }) }, closed)
export type FindBody = Static<typeof findBody>

const pageQuery = (prefix: 'key' | 'audit' | 'msg' | 'tok') =>
  Type.Object(
    {
      limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT })),
      cursor: Type.Optional(Type.String({ pattern: `^${prefix}_${ULID}$` })),
    },
    closed,
  )
export const listQuery = pageQuery('key')
export const auditQuery = pageQuery('audit')
export const deliveriesQuery = pageQuery('msg')
export const tokensQuery = pageQuery('tok')
export type PageQuery = Static<typeof listQuery>

export const auditSearchQuery = Type.Object(
  {
    keyId: Type.Optional(Type.String()),
    actor: Type.Optional(Type.String({ minLength: 1, maxLength: 300 })),
    action: Type.Optional(Type.String()),
    from: Type.Optional(Type.String({ pattern: INSTANT })),
    to: Type.Optional(Type.String({ pattern: INSTANT })),
    ...auditQuery.properties,
  },
  closed,
)
export type AuditSearchQuery = Static<typeof auditSearchQuery>

export const exportQuery = Type.Object({}, closed)

/** Each entry is validated by itself: a wrong one does not keep the others out. */
export const importBody = Type.Object(
  { keys: Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1, maxItems: 1000 }) },
  closed,
)
export type ImportBody = Static<typeof importBody>

export const tokenBody = Type.Object(
  {
    name: Type.String(),
    permissions: Type.Array(Type.String(), { maxItems: 16 }),
    workspaces: Type.Optional(Type.Array(Type.String(), { maxItems: MAX_TOKEN_WORKSPACES })),
    expiresInDays: Type.Number(),
  },
  closed,
)
export type TokenBody = Static<typeof tokenBody>
const KEY_QUERY_FIELDS = Object.entries(KEY_QUERY_EXPECTED).filter(([field]) => field !== 'cursor')

/** Completes `<field> must be …`; `body/…` where a body differs from a query. */
export const EXPECTED: Readonly<Record<string, string>> = {
  name: NAME_EXPECTED,
  description: DESCRIPTION_EXPECTED,
  allowedCidrs: ALLOWED_CIDRS_EXPECTED,
  permissions: PERMISSIONS_EXPECTED,
  workspaces: TOKEN_WORKSPACES_EXPECTED,
  keyId: 'a key id',
  actor: '1 to 300 characters',
  from: 'an instant such as 2027-02-18T09:00:00Z',
  to: 'an instant such as 2027-02-18T09:00:00Z',
  scopes: 'a list of scopes',
  expiresInDays: EXPIRES_IN_DAYS_EXPECTED,
  expiresAt: EXPIRES_AT_EXPECTED,
  overlapSeconds: OVERLAP_EXPECTED,
  ...Object.fromEntries(KEY_QUERY_FIELDS.map(([field, expected]) => [`querystring/${field}`, expected])),
  limit: 'a single whole number from 1 to 200',
  count: '1 or omitted',
  digest: 'a SHA-256 digest of 64 lower-case hexadecimal digits',
  keys: 'a list of 1 to 1000 objects',
  digests: 'a list of 1 to 256 digests, each of 64 lower-case hexadecimal digits',
  wait: '1 or omitted',
  gateway: 'an object with id and name, each of A-Z, a-z, 0-9 and "-", ".", "_"',
  hearing: 'true or false',
  leaving: 'true or false',
  confirmed: 'a list of at most 1000 objects, each with digest and version',
  used: USED_EXPECTED,
  sequence: SEQUENCE_EXPECTED,
  counts: 'a list of counts',
  refusals: 'a list of refusals',
  step: 'hour or day',
  'body/limit': 'a whole number from 1 to 1000',
  cursor: 'a single cursor from an earlier response',
  'body/cursor': 'a cursor from an earlier response',
  workspaceId: '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"',
}
