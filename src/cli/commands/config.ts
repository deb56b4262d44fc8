import type { Command } from 'commander'
import { configOrThrow } from '../../config/load-config.ts'
import { printConfig } from '../../config/print-config.ts'
import type { Config } from '../../config/schema/schema.ts'
import { describeApi } from '../../domain/route/describe-api.ts'
import type { Cli, Define } from '../cli.ts'
import {
  addSettings,
  loadOrThrow,
  loadSettings,
  PLANES,
  parsePlane,
  planeArgument,
} from '../options/settings-flags.ts'

/** `postern config check` and `postern config print` */
export const define: Define = (command, cli) => {
  addCheck(command.command('check'), cli)
  addPrint(command.command('print'), cli)
}

function addCheck(check: Command, cli: Cli): void {
  check
    .description('report every problem in the settings at once')
    .addArgument(planeArgument('check only what this plane needs'))
  addSettings(check, cli).action(async (plane: string | undefined, _, self) => {
    configOrThrow(loadSettings(cli, self, plane === undefined ? PLANES : [parsePlane(plane, self)], true))
    cli.host.write('The settings are valid.\n')
  })
}

function addPrint(print: Command, cli: Cli): void {
  print.description('print the effective settings, with secrets hidden')
  addSettings(print, cli).action(async (_, self) => {
    const loaded = loadSettings(cli, self, [])
    cli.host.write(printConfig(configOrThrow(loaded), loaded.ok ? loaded.removed : undefined))
  })
}

/** `postern openapi [--admin]`: the public API follows from the settings. */
export const defineOpenApi: Define = (command, cli) => {
  command.option('--admin', 'describe the admin API of the console instead of the public API')
  addSettings(command, cli).action(async ({ admin = false }: { readonly admin?: boolean }, self) => {
    const config = loadOrThrow(cli, self, [])
    const api = admin ? await describeAdmin(config, cli.version) : describeApi(config, cli.version)
    cli.host.write(`${JSON.stringify(api, null, 2)}\n`)
  })
}

/** Loads the calls of the console only here. */
async function describeAdmin({ console: { publicUrl } }: Config, version: string): Promise<object> {
  const { ADMIN_CALLS, describeAdminApi } = await import('../../console/api-reference/admin-api.ts')
  return describeAdminApi(ADMIN_CALLS, { version, publicUrl })
}
