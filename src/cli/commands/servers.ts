import { loadRunSettings } from '../../run/reloader.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadSettings, readConfigFlag, readFlags } from '../options/settings-flags.ts'

/** The flags that `--help` lists. */
const GATEWAY_FLAGS = [
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
const CONSOLE_FLAGS = [
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

/** `postern gateway` */
export const defineGateway: Define = (command, cli) => {
  addSettings(command, cli, GATEWAY_FLAGS).action(async (_, self) => {
    const settings = loadRunSettings(() => loadSettings(cli, self, ['gateway']))
    const { runGateway } = await import('../../run/run-gateway.ts')
    await runGateway(cli.host, cli.version, settings)
  })
}

/** `postern console` */
export const defineConsole: Define = (command, cli) => {
  addSettings(command, cli, CONSOLE_FLAGS).action(async (_, self) => {
    const settings = loadRunSettings(() => loadSettings(cli, self, ['console']))
    const { runConsole } = await import('../../run/run-console.ts')
    await runConsole(cli.host, cli.version, settings)
  })
}

/** `postern demo` */
export const defineDemo: Define = (command, cli) => {
  addSettings(command, cli, ['--gateway-port', '--console-port', '--upstream-url', '--log-level'])
  command.action(async (_, self) => {
    const { runDemo } = await import('../../run/run-demo.ts')
    await runDemo(cli.host, cli.version, readFlags(self), readConfigFlag(self))
  })
}
