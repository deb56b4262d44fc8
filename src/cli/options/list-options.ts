import { type Command, Option } from 'commander'
import { wholeNumberTo } from './whole-number.ts'

const MAX_LISTED = 999_999

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
  return new Option('--limit <count>', description).argParser(wholeNumberTo(MAX_LISTED))
}
