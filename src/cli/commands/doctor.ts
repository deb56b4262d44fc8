import type { Plane } from '../../config/rules.ts'
import type { Config } from '../../config/schema/schema.ts'
import { settings } from '../../config/settings.ts'
import type { Finding } from '../../doctor/finding.ts'
import { EXIT } from '../../run/host.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadOrThrow, PLANES, parsePlane, planeArgument } from '../options/settings-flags.ts'

/** The flags that `--help` lists. */
const FLAGS = [
  '--upstream-url',
  '--redis-url',
  '--key-service-url',
  '--key-service-token-file',
  '--keys-signing-secrets-file',
  '--database-url',
]

const DEFAULT_DATABASE_URL = settings.find(({ path }) => path === 'database.url')?.schema.default

/** `postern doctor`: exit 0 if everything is ok, 69 if anything failed. */
export const define: Define = (command, cli) => {
  command
    .addArgument(planeArgument('the plane; without it, each that the settings describe'))
    .option('--json', 'print one JSON document')
  addSettings(command, cli, FLAGS).action(
    async (plane: string | undefined, { json = false }: { readonly json?: boolean }, self) => {
      const planes =
        plane === undefined ? describedPlanes(loadOrThrow(cli, self, [])) : [parsePlane(plane, self)]
      const config = loadOrThrow(cli, self, planes)
      const [{ examine }, { formatFindings }] = await Promise.all([
        import('../../doctor/examine.ts'),
        import('../../doctor/finding.ts'),
      ])
      const findings = await examine(config, planes)
      cli.host.write(json ? `${toJson(findings)}\n` : formatFindings(findings))
      cli.host.exit(findings.every(({ isOk }) => isOk) ? EXIT.ok : EXIT.unavailable)
    },
  )
}

function toJson(findings: readonly Finding[]): string {
  return JSON.stringify({ checks: findings.map(({ isOk, ...finding }) => ({ ok: isOk, ...finding })) })
}

/** Each plane has a setting that only it needs. Without any, both, so that the missing settings are named. */
function describedPlanes(config: Config): readonly Plane[] {
  const { upstream, database, console: ofConsole } = config
  const isConsole =
    database.url !== DEFAULT_DATABASE_URL ||
    [ofConsole.adminToken, ofConsole.publicUrl, ofConsole.oidc.issuer].some(value => value !== undefined)
  const described: Plane[] = []
  if (upstream.url !== undefined) described.push('gateway')
  if (isConsole) described.push('console')
  return described.length === 0 ? PLANES : described
}
