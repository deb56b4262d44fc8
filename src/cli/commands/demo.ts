import type { Define } from '../cli.ts'
import { addSettings, configFileOf, flagsOf } from '../options/settings-flags.ts'

/** `postern demo` */
export const define: Define = (command, cli) => {
  addSettings(command, cli, ['--gateway-port', '--console-port', '--upstream-url', '--log-level'])
  command.action(async (_, self) => {
    const { runDemo } = await import('../../run/run-demo.ts')
    await runDemo(cli.host, cli.version, flagsOf(self), configFileOf(self))
  })
}
