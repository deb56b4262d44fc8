import { Type } from 'typebox'
import { PERMISSIONS } from '../access/principal.ts'
import { count, instant, instantOrNull, keyCounts, limitWindow, textOrNull } from './fields.ts'

/** What responses of the admin API hold besides keys, as far as commands show it too. */

/** A limit that is nearly used up. */
export const nearLimit = Type.Object(
  {
    workspaceId: Type.String(),
    keyId: Type.Union([Type.String(), Type.Null()], {
      description: 'Null: the requests of all keys of the workspace are counted together',
    }),
    ...Type.Omit(limitWindow, ['remaining', 'resetsAt']).properties,
    used: count,
    remaining: count,
    resetsAt: instant,
    reportedAt: Type.String({ format: 'date-time', description: 'When a gateway last said so' }),
  },
  { title: 'NearLimit' },
)

/** A rejected request. */
export const refusal = Type.Object(
  {
    at: instant,
    workspaceId: Type.String(),
    route: Type.String(),
    code: Type.String({ description: 'As the client saw it' }),
    reason: Type.String({ description: 'Why; a newer release can add reasons' }),
    keyId: Type.String(),
    requestId: Type.String(),
    address: Type.String({ description: 'The /24 or /48 network of the client' }),
  },
  { title: 'Refusal' },
)
const rights = {
  permissions: Type.Array(Type.Enum([...PERMISSIONS])),
  workspaces: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'Null for all' }),
}

export const token = Type.Object(
  {
    id: Type.String({ description: '`tok_` and a ULID' }),
    name: Type.String(),
    hint: Type.String(),
    ...rights,
    createdAt: instant,
    createdBy: Type.String(),
    expiresAt: instant,
    revokedAt: instantOrNull,
    lastUsedAt: instantOrNull,
  },
  { title: 'Token' },
)

export const caller = Type.Object(
  {
    actor: Type.String(),
    kind: Type.Enum(['operator', 'token', 'person']),
    name: textOrNull,
    ...rights,
    expiresAt: Type.Union(instantOrNull.anyOf, {
      description: 'Null if it does not expire by itself; a person’s session ends when it is idle',
    }),
  },
  { title: 'Caller' },
)

export const auditEntry = Type.Object(
  {
    id: Type.String(),
    at: instant,
    workspaceId: textOrNull,
    actor: Type.String(),
    action: Type.String({ description: 'A newer release can add actions' }),
    keyId: textOrNull,
    detail: Type.Record(Type.String(), Type.Unknown()),
  },
  { title: 'AuditEntry' },
)

export const webhook = Type.Object(
  {
    url: Type.String({ description: 'Without its path for callers that may not change it' }),
    createdAt: instant,
    createdBy: Type.String(),
  },
  { title: 'WorkspaceWebhook' },
)

export const workspace = Type.Object(
  { workspaceId: Type.String(), keys: keyCounts, lastUsedAt: instantOrNull },
  { title: 'Workspace' },
)
