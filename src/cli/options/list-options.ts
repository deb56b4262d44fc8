import { type Command, InvalidArgumentError, Option } from 'commander'

const FORMATS = ['table', 'wide', 'json', 'ndjson'] as const
export type OutputFormat = (typeof FORMATS)[number] | 'ids'

interface ListOptions {
  readonly output?: OutputFormat
  readonly json?: boolean
  readonly quiet?: boolean
}

/** Adds the options of every list command. */
export function addListOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        '-o, --output <format>',
        'format of the list; wide shows all columns in full (default: table)',
      )
        .choices(FORMATS)
        .conflicts(['json', 'quiet']),
    )
    .addOption(new Option('-q, --quiet', 'print ids alone').conflicts('json'))
    .addOption(new Option('--json', 'same as -o json'))
}

export function outputFormatOf(command: Command): OutputFormat {
  const { output, json, quiet } = command.opts<ListOptions>()
  if (quiet === true) return 'ids'
  return json === true ? 'json' : (output ?? 'table')
}

/** `--limit`, for lists that have no end. */
export function limitOption(description: string): Option {
  return new Option('--limit <count>', description).argParser(text => {
    if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
    throw new InvalidArgumentError('It must be a whole number from 1 to 999999.')
  })
}
