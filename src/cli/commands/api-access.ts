import { readFileSync } from 'node:fs'
import { formats } from '../../config/formats.ts'
import { fileErrorText } from '../../config/setting-files.ts'
import { hasKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import { chooseContext } from '../client/session.ts'
import { readSecret } from '../output/terminal.ts'

const NO_URL =
  'The address of the API is missing: set --url, for example to http://127.0.0.1:8080, or add a context (`postern context add NAME --api-url …`)'

/** Where the API is, and the key for it. */
export interface ApiAccess {
  /** Without a final slash. */
  readonly url: string
  /** Where the key comes from, for people. */
  readonly source: string
  /** @throws CliError if its file cannot be read, or holds no key */
  readonly readKey: () => string
}

interface ApiOptions {
  readonly url?: string
  readonly keyFile?: string
  readonly context?: string
}

/** The key of a context is for its own API: with `--url` it comes from a file or standard input. */
export async function readApiAccess(
  { url, keyFile, context: name }: ApiOptions,
  host: Host,
): Promise<ApiAccess> {
  if (url !== undefined) {
    const checked = checkUrl('--url', url)
    const key = keyFile === undefined ? await givenKey(host) : fileKey(keyFile)
    return { url: checked, ...key }
  }
  const context = chooseContext(name, host.environment)
  if (context?.apiUrl === undefined) throw usage(NO_URL)
  const place = `of the context ${context.name}`
  const file = keyFile ?? context.keyFile
  const key = file === undefined ? keptKey(place, context.key ?? '') : fileKey(file)
  return { url: checkUrl(`The address ${place}`, context.apiUrl), ...key }
}

type Key = Pick<ApiAccess, 'source' | 'readKey'>

async function givenKey({ streams }: Host): Promise<Key> {
  return keptKey('from standard input', await readSecret(streams, 'API key: '))
}

function keptKey(source: string, text: string): Key {
  const key = checkKey(source, text)
  return { source, readKey: () => key }
}

/** Read once now, so that a mistake shows at once, and again for each request: a key that was rotated is used without a restart. */
function fileKey(file: string): Key {
  const source = `in ${file}`
  const readKey = () => checkKey(source, readKeyFile(source, file))
  readKey()
  return { source, readKey }
}

function readKeyFile(source: string, file: string): string {
  try {
    return plainPasted(readFileSync(file, 'utf8').trim())
  } catch (error) {
    throw usage(`The key ${source} cannot be read: ${fileErrorText(error)}`)
  }
}

/** Any text that can be sent: this machine does not know the format of the installation's keys. @returns the key */
export function checkKey(source: string, key: string): string {
  if (hasKeyForm(key, { kind: 'opaque' })) return key
  throw usage(`The key ${source} is not one: only letters, digits and ._~+/-= are allowed`)
}

function checkUrl(source: string, url: string): string {
  if (formats['http-url']?.accepts(url) === true) return url.replace(/(?<!\/)\/+$/, '')
  throw usage(`${source} must be ${formats['http-url']?.expectation}`)
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
