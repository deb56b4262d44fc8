import { ADMIN_CALLS } from '../../console/api-reference/admin-calls.ts'
import { describeAdminApi } from '../../console/api-reference/describe-admin-api.ts'
import { describeApi } from '../../domain/route/describe-api.ts'
import type { Define } from '../cli.ts'
import { addSettings, loadOrThrow } from '../options/settings-flags.ts'

/** `postern openapi [--admin]` */
export const define: Define = (command, cli) => {
  command.option('--admin', 'describe the admin API of the console instead of the public API')
  addSettings(command, cli).action(async ({ admin = false }: { readonly admin?: boolean }, self) => {
    const config = loadOrThrow(cli, self, [])
    const { version } = cli
    const { publicUrl } = config.console
    const api = admin ? describeAdminApi(ADMIN_CALLS, { version, publicUrl }) : describeApi(config, version)
    cli.host.write(`${JSON.stringify(api, null, 2)}\n`)
  })
}
