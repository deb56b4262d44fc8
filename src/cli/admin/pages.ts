import type { Static, TSchema } from 'typebox'
import type { AdminClient } from './client.ts'
import { readResponse } from './responses.ts'

const PAGE_SIZE = 200

interface Page {
  readonly cursor?: string
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
  itemsOf: (page: Static<Schema>) => readonly Item[],
): AsyncGenerator<readonly Item[]> {
  let cursor: string | undefined
  do {
    const parameters = new URLSearchParams({ ...query, limit: String(PAGE_SIZE), ...(cursor && { cursor }) })
    const page = readResponse(
      client,
      schema,
      await client.send({ method: 'GET', path: `${path}?${parameters}` }),
    )
    yield itemsOf(page)
    // Every schema of a list has the field, or leaves it out.
    const { cursor: next } = page as Page
    // The same cursor again would loop for ever.
    if (next === cursor && cursor !== undefined) throw client.notUnderstood()
    cursor = next
  } while (cursor !== undefined)
}
