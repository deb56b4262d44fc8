import { resolve } from 'node:path'
import type { Command } from 'commander'
import { plainPasted } from '../../domain/form/text.ts'
import type { Host } from '../../run/host.ts'
import { type Cli, type Define, usageError } from '../cli.ts'
import {
  type Context,
  type Contexts,
  changeContexts,
  checkKey,
  checkToken,
  checkUrl,
  findContextsFile,
  isContextName,
  readContexts,
  unknownContext,
} from '../client/session.ts'
import { addListOptions, chooseOutputFormat, type ListView, printList } from '../output/list.ts'
import { readPiped } from '../output/terminal.ts'

const NO_TOKEN = 'Name the file of the admin token in --token-file, or write the token to standard input'
const NO_KEY = 'Name the file of the API key in --key-file, or write the key to standard input'
const ONE_INPUT = 'Standard input holds one secret: name the file of the other in --token-file or --key-file'

/** `postern context …`: addresses of consoles and APIs with token and key, in a file that only its owner can read. */
export const define: Define = (context, cli) => {
  for (const add of [addAdd, addUse, addList, addRemove]) add(context, cli)
}

function addAdd(context: Command, cli: Cli): void {
  context
    .command('add')
    .description(
      'remember a console or an API; token or key come from standard input, or from a file at each command',
    )
    .argument('<name>', 'name of the context')
    .option('--url <address>', 'address of the console')
    .option('--token-file <file>', 'file that contains the admin token')
    .option('--api-url <address>', 'address of the API, for `postern proxy`')
    .option('--key-file <file>', 'file that contains the API key')
    .action(async (name: string, options: AddOptions) => {
      checkNew(name, options)
      requireFree(read(cli.host), name)
      const context = await readContext(options, cli.host)
      let inUse = name
      await change(cli.host, found => {
        requireFree(found, name)
        inUse = found.current ?? name
        return { current: inUse, contexts: { ...found.contexts, [name]: context } }
      })
      cli.host.writeError(`Added ${name}. ${inUse === name ? 'It is in use.' : `${inUse} is in use.`}\n`)
    })
}

interface AddOptions {
  readonly url?: string
  readonly tokenFile?: string
  readonly apiUrl?: string
  readonly keyFile?: string
}

async function readContext({ url, tokenFile, apiUrl, keyFile }: AddOptions, host: Host): Promise<Context> {
  const needs = {
    token: url !== undefined && tokenFile === undefined,
    key: apiUrl !== undefined && keyFile === undefined,
  }
  if (needs.token && needs.key) throw usageError(ONE_INPUT)
  const console =
    url === undefined
      ? {}
      : { url, ...(tokenFile === undefined ? await readToken(host) : { tokenFile: resolve(tokenFile) }) }
  const api =
    apiUrl === undefined
      ? {}
      : { apiUrl, ...(keyFile === undefined ? await readKey(host) : { keyFile: resolve(keyFile) }) }
  return { ...console, ...api }
}

function addUse(context: Command, { host }: Cli): void {
  context
    .command('use')
    .description('choose the console that commands ask, and the API of `postern proxy`')
    .argument('<name>', 'name of the context')
    .action(async (name: string) => {
      await change(host, ({ contexts }) => {
        requireContext(contexts, name)
        return { current: name, contexts }
      })
      host.writeError(`${name} is in use.\n`)
    })
}

interface ShownContext {
  readonly name: string
  /** Null without a console. */
  readonly url: string | null
  /** Where the token is; never the token. */
  readonly token: string | null
  /** Null without an API. */
  readonly apiUrl: string | null
  /** Where the key is; never the key. */
  readonly key: string | null
  readonly current: boolean
}

const VIEW: ListView<ShownContext> = {
  name: 'contexts',
  columns: [
    { title: 'NAME', text: ({ name }) => name },
    { title: 'CONSOLE', text: ({ url }) => url ?? '–' },
    { title: 'TOKEN', text: ({ token }) => token ?? '–', atLeast: 12, leaves: 1 },
    { title: 'API', text: ({ apiUrl }) => apiUrl ?? '–' },
    { title: 'KEY', text: ({ key }) => key ?? '–', atLeast: 12, leaves: 1 },
    { title: 'IN USE', text: ({ current }) => (current ? 'yes' : '') },
  ],
  id: ({ name }) => name,
  whenEmpty: 'There are no contexts: `postern context add` adds one.',
}

function addList(context: Command, { host }: Cli): void {
  const list = context.command('list').description('list the contexts')
  addListOptions(list).action(async (_, self: Command) => {
    const { current, contexts } = read(host)
    const shown = Object.entries(contexts).map(
      ([name, { url = null, tokenFile = 'saved', apiUrl = null, keyFile = 'saved' }]) => ({
        name,
        url,
        token: url === null ? null : tokenFile,
        apiUrl,
        key: apiUrl === null ? null : keyFile,
        current: name === current,
      }),
    )
    await printList(host, chooseOutputFormat(self), VIEW, [shown])
  })
}

function addRemove(context: Command, { host }: Cli): void {
  context
    .command('remove')
    .description('forget a console or an API, with token and key')
    .argument('<name>', 'name of the context')
    .action(async (name: string) => {
      await change(host, ({ current, contexts }) => {
        requireContext(contexts, name)
        const { [name]: _, ...others } = contexts
        return current === undefined || current === name
          ? { contexts: others }
          : { current, contexts: others }
      })
      host.writeError(`Removed ${name}.\n`)
    })
}

function checkNew(name: string, { url, tokenFile, apiUrl, keyFile }: AddOptions): void {
  if (!isContextName(name))
    throw usageError('The name of a context is 1 to 64 letters, digits, ".", "_" and "-"')
  if (url === undefined && apiUrl === undefined)
    throw usageError('Name a console by --url, an API by --api-url, or both')
  if (url === undefined && tokenFile !== undefined) throw usageError('--token-file needs --url')
  if (apiUrl === undefined && keyFile !== undefined) throw usageError('--key-file needs --api-url')
  for (const [flag, address] of [
    ['--url', url],
    ['--api-url', apiUrl],
  ] as const) {
    if (address !== undefined) checkUrl(flag, address)
  }
}

async function readToken({ streams }: Host): Promise<Pick<Context, 'token'>> {
  // Typed at a terminal, it would stay on the screen.
  if (streams.input.isTTY === true) throw usageError(NO_TOKEN)
  const token = plainPasted(await readPiped(streams, 'token'))
  if (token === '') throw usageError(NO_TOKEN)
  checkToken({ source: 'Standard input', text: token })
  return { token }
}

async function readKey({ streams }: Host): Promise<Pick<Context, 'key'>> {
  if (streams.input.isTTY === true) throw usageError(NO_KEY)
  const key = plainPasted(await readPiped(streams, 'key'))
  if (key === '') throw usageError(NO_KEY)
  return { key: checkKey('from standard input', key) }
}

function requireFree({ contexts }: Contexts, name: string): void {
  if (!Object.hasOwn(contexts, name)) return
  throw usageError(`There is a context ${name} already: remove it first (\`postern context remove ${name}\`)`)
}

function requireContext(contexts: Contexts['contexts'], name: string): void {
  if (!Object.hasOwn(contexts, name)) throw unknownContext(name, Object.keys(contexts))
}

function read(host: Host): Contexts {
  return readContexts(findContextsFile(host.environment))
}

function change(host: Host, from: (contexts: Contexts) => Contexts): Promise<void> {
  return changeContexts(findContextsFile(host.environment), from)
}
