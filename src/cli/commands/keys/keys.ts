import { type Command, Option } from 'commander'
import { isWorkspaceId } from '../domain/key/key-record.ts'
import { EXIT, type Host } from '../run/host.ts'
import type { KeysCommand } from './admin-client.ts'
import { CliError } from './cli-error.ts'
import { type AccessOptions, readConsoleAccess } from './console-access.ts'
import { parseDuration } from './duration.ts'

type CommonOptions = AccessOptions & { readonly json?: boolean }

/** Adds `keys` and its subcommands, which manage keys through the admin API. */
export function addKeysCommand(program: Command, host: Host): void {
  const keys = program.command('keys').description('issue, list, rotate and revoke keys, through the console')
  keys.helpCommand(false).exitOverride(error => {
    // commander has printed its message already.
    throw error.exitCode === 0 ? error : new CliError('', EXIT.usage)
  })
  const begin: Begin = async self => {
    const options = self.opts<CommonOptions>()
    // Loaded only when it runs: a gateway that starts describes this command as well.
    const { AdminClient } = await import('./admin-client.ts')
    const client = new AdminClient(readConsoleAccess(options, host.environment))
    return { host, client, json: options.json === true }
  }
  addIssue(keys, begin)
  addList(keys, begin)
  addRotate(keys, begin)
  addRevoke(keys, begin)
  addSync(keys, begin)
}

type Begin = (self: Command) => Promise<KeysCommand>

function addIssue(keys: Command, begin: Begin): void {
  const issue = keys
    .command('issue')
    .description('issue a new key; its secret is printed once, alone on standard output')
    .requiredOption('--workspace <id>', 'workspace of the key')
    .requiredOption('--scope <scope>', 'scope of the key; repeat for more', collect)
    .option('--name <name>', 'name of the key (default: "cli" and the time)')
    .addOption(expiresIn())
  type Options = { workspace: string; scope: string[]; name?: string; expiresIn?: number }
  withAccess(issue).action(async (options: Options, self: Command) => {
    const { issueKey } = await import('./keys-issue.ts')
    await issueKey(await begin(self), { ...options, workspace: checkWorkspace(options.workspace) })
  })
}

function addList(keys: Command, begin: Begin): void {
  const list = keys
    .command('list')
    .description('list the keys of a workspace, newest first')
    .requiredOption('--workspace <id>', 'workspace of the keys')
  withAccess(list).action(async (options: { workspace: string }, self: Command) => {
    const { listKeys } = await import('./keys-list.ts')
    await listKeys(await begin(self), checkWorkspace(options.workspace))
  })
}

function addRotate(keys: Command, begin: Begin): void {
  const rotate = keys
    .command('rotate')
    .description('replace a key by one with the same scopes; the old key works until the overlap ends')
    .argument('<id>', 'the key’s id (key_…)')
    .option(
      '--overlap <duration>',
      'how long the old key keeps working (default: 24h); 0 revokes it at once',
      parseDuration,
    )
    .addOption(expiresIn())
  type Options = { overlap?: number; expiresIn?: number }
  withAccess(rotate).action(async (id: string, options: Options, self: Command) => {
    const { rotateKey } = await import('./keys-rotate.ts')
    await rotateKey(await begin(self), { ...options, id: checkKeyId(id) })
  })
}

function addRevoke(keys: Command, begin: Begin): void {
  const revoke = keys
    .command('revoke')
    .description('revoke a key, for good')
    .argument('<id>', 'the key’s id (key_…)')
    .option('--yes', 'do not ask for confirmation')
  withAccess(revoke).action(async (id: string, options: { yes?: boolean }, self: Command) => {
    const { revokeKey } = await import('./keys-revoke.ts')
    await revokeKey(await begin(self), { id: checkKeyId(id), confirmed: options.yes === true })
  })
}

function addSync(keys: Command, begin: Begin): void {
  const sync = keys.command('sync').description('rewrite every record in Redis from the database')
  withAccess(sync).action(async (_, self: Command) => {
    const { syncKeys } = await import('./keys-sync.ts')
    await syncKeys(await begin(self))
  })
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value]
}

/** Adds the options that all subcommands share, after their own. */
function withAccess(command: Command): Command {
  return command
    .option('--json', 'print the response of the admin API')
    .option('--url <address>', 'address of the console (POSTERN_CONSOLE_URL)')
    .option('--token <token>', 'admin token; visible to other users: prefer POSTERN_ADMIN_TOKEN')
    .option('--token-file <file>', 'file that contains the token (POSTERN_ADMIN_TOKEN_FILE)')
}

function expiresIn(): Option {
  return new Option('--expires-in <duration>', 'lifetime of the key (default: 90d)').argParser(parseDuration)
}

function checkWorkspace(text: string): string {
  if (isWorkspaceId(text)) return text
  const expected = '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"'
  throw new CliError(`--workspace must be ${expected}`, EXIT.usage)
}

/** A secret pasted here by mistake must not reach an error message, a URL or the console's log. */
function checkKeyId(text: string): string {
  if (/^key_[0-9A-HJKMNP-TV-Z]{26}$/.test(text)) return text
  const message = 'This is not the id of a key: ids begin with key_, and `postern keys list` shows them'
  throw new CliError(message, EXIT.usage)
}
