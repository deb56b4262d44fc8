import { loadRunSettings } from '../../run/run-settings.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadSettings } from '../options/settings-flags.ts'

const SHOWN = [
  '--console-host',
  '--console-port',
  '--console-internal-port',
  '--console-public-url',
  '--console-admin-token-file',
  '--ops-port',
  '--redis-url',
  '--key-service-token-file',
  '--keys-signing-secrets-file',
  '--database-url',
  '--log-level',
]

/** `postern console` */
export const define: Define = (command, cli) => {
  addSettings(command, cli, SHOWN).action(async (_, self) => {
    const settings = loadRunSettings(() => loadSettings(cli, self, ['console']))
    const { runConsole } = await import('../../run/run-console.ts')
    await runConsole(cli.host, cli.version, settings)
  })
}
