import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Database } from '../platform/database/database.ts'
import { listOf } from '../platform/database/first-rows.ts'
import { isKeyId } from '../platform/ids.ts'
import type { KnownKeys } from './check-report.ts'
import type { UsageReportBody } from './usage-report.ts'

const MAX_KEYS = 100_000
const MAX_WORKSPACES = 20_000

/** Looks up the workspaces of reported keys. A key never changes its workspace, so each is read once. */
export function createKnownKeys({ reader, dialect }: Pick<Database, 'reader' | 'dialect'>) {
  const workspaceByKey = new LRUCache<string, string>({ max: MAX_KEYS })
  const workspaces = new LRUCache<string, true>({ max: MAX_WORKSPACES })

  async function readKeys(ids: readonly string[]): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    const missing: string[] = []
    for (const id of ids) {
      const workspaceId = workspaceByKey.get(id)
      if (workspaceId === undefined) missing.push(id)
      else found.set(id, workspaceId)
    }
    if (missing.length === 0) return found
    const { rows } = await sql<{ id: string; workspace_id: string }>`
      select keys.id, keys.workspace_id from ${listOf(missing, dialect)} join keys on keys.id = listed.value`.execute(
      reader,
    )
    for (const { id, workspace_id } of rows) {
      workspaceByKey.set(id, workspace_id)
      found.set(id, workspace_id)
    }
    return found
  }

  async function readWorkspaces(ids: readonly string[]): Promise<Set<string>> {
    const found = new Set(ids.filter(id => workspaces.get(id) === true))
    const missing = ids.filter(id => !found.has(id))
    if (missing.length === 0) return found
    const { rows } = await sql<{ value: string }>`
      select listed.value from ${listOf(missing, dialect)}
      where exists (select 1 from keys where keys.workspace_id = listed.value)`.execute(reader)
    for (const { value } of rows) {
      workspaces.set(value, true)
      found.add(value)
    }
    return found
  }

  return async (report: UsageReportBody): Promise<KnownKeys> => {
    const { counts = [], refusals = [], omittedRefusals = [] } = report
    const keys = await readKeys(textsOf([...counts, ...refusals], 'keyId').filter(isKeyId))
    const folded = await readWorkspaces(textsOf([...counts, ...omittedRefusals], 'workspaceId'))
    return { workspaceOf: id => keys.get(id) ?? null, hasWorkspace: id => folded.has(id) }
  }
}

/** Each text once; entries that are not valid are refused later. */
function textsOf(entries: readonly unknown[], field: 'keyId' | 'workspaceId'): string[] {
  const texts = new Set<string>()
  for (const entry of entries) {
    if (typeof entry !== 'object' || entry === null) continue
    const value: unknown = Reflect.get(entry, field)
    if (typeof value === 'string' && value.length <= 128 && !value.includes('\0')) texts.add(value)
  }
  return [...texts]
}
