import { type Command, Option } from 'commander'
import { keyPattern } from '../../../domain/key/secret.ts'
import { EXIT } from '../../../run/host.ts'
import { type Cli, CliError } from '../../cli.ts'

const FORMATS = ['regex', 'gitleaks', 'trufflehog'] as const
type Format = (typeof FORMATS)[number]
/** As `keys.prefix`; no character of it has a meaning in a regular expression, TOML or YAML. */
const PREFIX = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/

interface PatternOptions {
  readonly format: Format
  readonly prefix?: string
}

/** `postern keys pattern`: it needs neither a console nor settings, because scanners run elsewhere. */
export function addPattern(keys: Command, { host }: Cli): void {
  keys
    .command('pattern')
    .description('print the pattern of keys, for programs that search for leaked secrets')
    .addOption(
      new Option('--format <format>', 'the pattern alone, or a configuration of gitleaks or TruffleHog')
        .choices(FORMATS)
        .default('regex' satisfies Format),
    )
    .option('--prefix <prefix>', 'prefix of your keys (default: POSTERN_KEYS_PREFIX, or wsk_)')
    .action(({ format, prefix = host.environment['POSTERN_KEYS_PREFIX'] ?? 'wsk_' }: PatternOptions) => {
      requirePrefix(prefix)
      host.write(`${WRITERS[format](prefix)}\n`)
    })
}

const WRITERS: Readonly<Record<Format, (prefix: string) => string>> = {
  regex: keyPattern,
  gitleaks: prefix =>
    [
      'title = "Postern"',
      '',
      '[[rules]]',
      'id = "postern-api-key"',
      'description = "API key of a Postern gateway"',
      `regex = '''${keyPattern(prefix)}'''`,
      // gitleaks compares keywords with text in lower case.
      `keywords = ["${prefix.toLowerCase()}"]`,
    ].join('\n'),
  trufflehog: prefix =>
    [
      'detectors:',
      '  - name: postern-api-key',
      '    keywords:',
      `      - "${prefix}"`,
      '    regex:',
      `      key: '${keyPattern(prefix)}'`,
    ].join('\n'),
}

function requirePrefix(text: string): void {
  if (PREFIX.test(text)) return
  throw new CliError(
    '--prefix must be a letter and up to 31 letters, digits, "_" or "-", as keys.prefix is',
    EXIT.usage,
  )
}
