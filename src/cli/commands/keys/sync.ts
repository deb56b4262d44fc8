import type { Command } from 'commander'
import { readResponse, syncResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { keyCount } from '../../output/key-text.ts'
import { createProgress } from '../../output/progress.ts'

/** A page takes many writes to Redis. */
const PAGE_DEADLINE_MS = 60_000

/** `postern keys sync` */
export function addSync(keys: Command, cli: Cli): void {
  const sync = keys.command('sync').description('rewrite every record in Redis from the database')
  addAccessOptions(addJsonOption(sync)).action((_, self: Command) => syncKeys(openSession(cli, self)))
}

/** Page by page, so that no request takes long and progress can be shown. */
async function syncKeys({ client, host, json }: AdminSession): Promise<void> {
  const progress = createProgress(host.streams.errors, json)
  let synced = 0
  let total = 0
  let cursor: string | undefined
  try {
    do {
      const body = cursor === undefined ? {} : { cursor }
      const call = { method: 'POST', path: '/sync', body, deadlineMs: PAGE_DEADLINE_MS } as const
      const page = readResponse(client, syncResponse, await client.send(call))
      if (page.cursor === cursor && cursor !== undefined) throw client.notUnderstood()
      synced += page.synced
      total = page.total
      cursor = page.cursor
      progress.show(synced, total)
    } while (cursor !== undefined)
  } finally {
    progress.end()
  }
  host.write(
    json
      ? `${JSON.stringify({ synced, total })}\n`
      : `Wrote ${keyCount(synced)} from the database to Redis.\n`,
  )
}
