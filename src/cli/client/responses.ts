import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { key as describedKey, gateways, regions } from '../../console/platform/http/fields.ts'
import type { AdminClient, AdminRequest, AdminResponse } from './client.ts'

const PAGE_SIZE = 200

interface Page {
  readonly cursor?: string
}

/** @throws CliError for a response that does not fit the schema */
export function readResponse<Schema extends TSchema>(
  client: AdminClient,
  schema: Schema,
  { json }: AdminResponse,
): Static<Schema> {
  if (!Value.Check(schema, json)) throw client.notUnderstood()
  return json
}

/**
 * All pages of a list, one after the other.
 * @param path below `/admin/v1`, without the query
 * @param query without `limit` and `cursor`
 */
export async function* readPages<Schema extends TSchema, Item>(
  client: AdminClient,
  { path, query = {} }: { path: string; query?: Readonly<Record<string, string>> },
  schema: Schema,
  readItems: (page: Static<Schema>) => readonly Item[],
): AsyncGenerator<readonly Item[]> {
  let cursor: string | undefined
  do {
    const parameters = new URLSearchParams({ ...query, limit: String(PAGE_SIZE), ...(cursor && { cursor }) })
    const page = readResponse(
      client,
      schema,
      await client.send({ method: 'GET', path: `${path}?${parameters}` }),
    )
    yield readItems(page)
    // Every schema of a list has the field, or leaves it out.
    const { cursor: next } = page as Page
    // The same cursor again would loop for ever.
    if (next === cursor && cursor !== undefined) throw client.notUnderstood()
    cursor = next
  } while (cursor !== undefined)
}

// The parts of responses that commands show. Fields that a newer console adds are ignored.
export const count = Type.Integer({ minimum: 0 })
export const instant = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d' })
export const nullable = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()])

const { id, workspaceId, name, scopes, hint, createdAt, expiresAt, revokedAt, lastUsedAt, state, ...added } =
  describedKey.properties
/** As the console describes it. An older one leaves out fields that were added since; a newer one may know more states. */
const key = Type.Object({
  id,
  workspaceId,
  name,
  scopes,
  hint,
  createdAt,
  expiresAt,
  revokedAt,
  lastUsedAt,
  state: Type.String(),
  ...Type.Partial(Type.Object(added)).properties,
})
export type ShownKey = Static<typeof key>

/** The secret is null in the response to a retry: the first response held it. */
export const issuedResponse = Type.Object({ key, secret: nullable(Type.String()) })
export const keyResponse = Type.Object({ key })
export type ShownGateways = NonNullable<Static<typeof gateways>>
/** Which gateways have confirmed that a key was revoked. An older console leaves these fields out. */
const progress = {
  announced: Type.Optional(Type.Boolean()),
  gateways: Type.Optional(gateways),
  /** Only from a console with regions. */
  regions,
}
export const revokedResponse = Type.Object({ key, ...progress })
export const revokedAllResponse = Type.Object({
  revoked: count,
  ...progress,
  cursor: Type.Optional(Type.String()),
})
export const planResponse = Type.Object({ plan: nullable(Type.String()) })
export const planChangedResponse = Type.Object({
  plan: nullable(Type.String()),
  changed: count,
  ...progress,
  cursor: Type.Optional(Type.String()),
})
/** Of a suspension, resumption or edit. */
export const changedResponse = Type.Object({
  key,
  committedAt: Type.Optional(nullable(instant)),
  ...progress,
})
export const rotatedResponse = Type.Object({
  key,
  secret: nullable(Type.String()),
  replaced: key,
  ...progress,
})
export const keysResponse = Type.Object({ keys: Type.Array(key), cursor: Type.Optional(Type.String()) })

/** What an answer says about a part of the keys that a call changes. */
type ChangedPart = Omit<Static<typeof revokedAllResponse>, 'revoked'> & { readonly keys: number }

/** The console answers after some seconds, and the last answer waits for slow announcements. */
const PART_DEADLINE_MS = 60_000

/**
 * Repeats a call that changes many keys until it is done: each answer says where the next call goes on.
 * @param onPart called after each answer, with the number of keys so far
 * @returns the last answer, with the keys of all
 */
export async function callUntilDone(
  client: AdminClient,
  { path, ...call }: Pick<AdminRequest, 'method' | 'path' | 'body'>,
  read: (response: AdminResponse) => ChangedPart,
  onPart: (keys: number, isLast: boolean) => Promise<void> = async () => {},
): Promise<ChangedPart> {
  let sum: ChangedPart = { keys: 0 }
  do {
    const query = new URLSearchParams({ wait: '1', ...(sum.cursor && { cursor: sum.cursor }) })
    const sent = { ...call, path: `${path}?${query}`, deadlineMs: PART_DEADLINE_MS }
    const part = read(await client.send(sent))
    if (part.cursor !== undefined && part.keys === 0) throw client.notUnderstood()
    // A last call without a key has nothing that gateways confirm.
    const gateways = part.gateways ?? sum.gateways
    sum = { ...part, ...(gateways === undefined ? {} : { gateways }), keys: sum.keys + part.keys }
    await onPart(sum.keys, sum.cursor === undefined)
  } while (sum.cursor !== undefined)
  return sum
}
