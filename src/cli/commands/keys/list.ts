import { systemClock } from '../domain/clock.ts'
import { keysAnswer, readAnswer, type ShownKey } from './admin-answers.ts'
import type { KeysCommand } from './admin-client.ts'
import { keysTable } from './keys-table.ts'

const PAGE_SIZE = 200

/** `postern keys list`: all pages. */
export async function listKeys({ client, host, json }: KeysCommand, workspace: string): Promise<void> {
  const keys: ShownKey[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({ limit: String(PAGE_SIZE), ...(cursor && { cursor }) })
    const path = `/workspaces/${encodeURIComponent(workspace)}/keys?${query}`
    const page = readAnswer(client, keysAnswer, await client.ask({ method: 'GET', path }))
    keys.push(...page.keys)
    // The same cursor again would loop for ever.
    if (page.cursor === cursor && cursor !== undefined) throw client.notUnderstood()
    cursor = page.cursor
  } while (cursor !== undefined)
  if (json) host.write(`${JSON.stringify({ keys })}\n`)
  else if (keys.length === 0) host.complain(`Workspace ${workspace} has no keys.\n`)
  else host.write(keysTable(keys, systemClock.wallMs(), host))
}
