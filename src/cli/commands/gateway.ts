import { loadRunSettings } from '../../run/run-settings.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadSettings } from '../options/settings-flags.ts'

const SHOWN = [
  '--gateway-host',
  '--gateway-port',
  '--ops-port',
  '--upstream-url',
  '--redis-url',
  '--key-service-url',
  '--key-service-token-file',
  '--keys-signing-secrets-file',
  '--log-level',
]

/** `postern gateway` */
export const define: Define = (command, cli) => {
  addSettings(command, cli, SHOWN).action(async (_, self) => {
    const settings = loadRunSettings(() => loadSettings(cli, self, ['gateway']))
    const { runGateway } = await import('../../run/run-gateway.ts')
    await runGateway(cli.host, cli.version, settings)
  })
}
