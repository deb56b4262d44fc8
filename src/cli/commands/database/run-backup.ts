import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditKeys } from '../../../control/registry/database/audit/audit-mac.ts'
import { backUp } from '../../../control/registry/database/backup/back-up.ts'
import { EXIT, type Host } from '../../../run/host.ts'
import { CliError } from '../../cli.ts'
import { keyCount } from '../../output/key-text.ts'
import { runTask } from './run-task.ts'

/** Names of backups in a folder: they sort by time. */
const NAME = /^postern-\d{8}T\d{6}Z\.db$/

interface BackupRequest {
  readonly url: string
  readonly to: string
  readonly force: boolean
  /** How many backups a folder keeps; null for all. */
  readonly keep: number | null
  readonly auditKeys: AuditKeys
  readonly nowMs: number
}

export async function runBackup(host: Host, request: BackupRequest): Promise<void> {
  const { to, keep, nowMs } = request
  const isFolder = await stat(to).then(
    found => found.isDirectory(),
    () => false,
  )
  if (keep !== null && !isFolder) throw new CliError(`--keep needs a folder, which ${to} is not`, EXIT.usage)
  const file = isFolder ? join(to, nameAt(nowMs)) : to
  const report = await runTask(host, 'parts copied', progress => backUp({ ...request, file, progress }))
  host.write(
    `Saved ${keyCount(report.keys)} and ${report.auditEntries} audit entries to ${file}\nAudit head: ${report.auditHead}\n`,
  )
  if (report.schemaDifferences !== null) {
    host.complain(
      `The schema is not as Postern makes it: ${report.schemaDifferences}. A restore refuses this backup until that is corrected\n`,
    )
  }
  if (report.brokenAudit !== null) {
    host.complain(
      `The audit log has entries that were changed or removed, or that no console wrote: ${report.brokenAudit}. ` +
        '`postern audit verify` lists them. A restore refuses this backup without --allow-broken-audit\n',
    )
  }
  if (keep !== null) await deleteOldest(host, to, keep)
}

function nameAt(nowMs: number): string {
  return `postern-${new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')}.db`
}

async function deleteOldest(host: Host, folder: string, keep: number): Promise<void> {
  const names = (await readdir(folder)).filter(name => NAME.test(name)).sort()
  for (const name of names.slice(0, Math.max(0, names.length - keep))) {
    await rm(join(folder, name))
    host.write(`Deleted ${join(folder, name)}\n`)
  }
}
