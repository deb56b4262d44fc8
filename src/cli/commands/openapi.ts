import { describeApi } from '../../domain/describe-api.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadOrThrow } from '../options/settings-flags.ts'

/** `postern openapi` */
export const define: Define = (command, cli) => {
  addSettings(command, cli).action(async (_, self) => {
    const api = describeApi(loadOrThrow(cli, self, []), cli.version)
    cli.host.write(`${JSON.stringify(api, null, 2)}\n`)
  })
}
