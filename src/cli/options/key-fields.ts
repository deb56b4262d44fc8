import { type Command, InvalidArgumentError, Option } from 'commander'
import { normalizeCidrs } from '../../domain/address/ip-address.ts'
import type { ChosenField } from '../../domain/key/key-fields.ts'
import { eachText, KEY_TEXTS, TEXT_NAMES, type TextName } from '../../domain/key/key-texts.ts'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import type { ShownKey } from '../client/responses.ts'
import { plainText } from '../text.ts'

/** What options say of the fields of a key that people choose. */
export interface FieldOptions extends GivenTexts {
  readonly name?: string
  readonly allowCidr?: readonly string[]
  readonly plan?: string
}
type GivenTexts = { readonly [Name in TextName]?: string }

/** @param name what `--name` means to this command */
export function addFieldOptions(command: Command, name: string): Command {
  command.option('--name <name>', name)
  for (const text of TEXT_NAMES) command.option(`--${text} <text>`, KEY_TEXTS[text].help)
  command.option('--plan <name>', 'the plan whose rate limits hold for the key')
  return command.addOption(allowCidrOption())
}

/** `--allow-cidr a,b --allow-cidr c` */
function allowCidrOption(): Option {
  const description = 'addresses or CIDRs that may use the key, separated by commas; may be repeated'
  return new Option('--allow-cidr <cidrs>', description).argParser(
    (text: string, before: readonly string[] = []) => [...before, ...splitCidrs(text)],
  )
}

function splitCidrs(text: string): string[] {
  const cidrs = text.split(',').map(cidr => cidr.trim())
  if (normalizeCidrs(cidrs) !== null) return cidrs
  throw new InvalidArgumentError('It must be IP addresses or CIDRs, such as 192.0.2.0/24.')
}

/** The fields that were given, as the admin API names them; JSON leaves out what is undefined. */
export function givenFields({ name, allowCidr, plan, ...texts }: FieldOptions): Record<string, unknown> {
  const fields = { name, ...eachText(text => texts[text]), allowedCidrs: allowCidr, plan }
  return fields satisfies Readonly<Record<ChosenField, unknown>>
}

/** Fields that can be removed: the names of their options and in the admin API, and what removes them. */
const CLEARABLE: Readonly<Record<string, { readonly field: string; readonly cleared: unknown }>> = {
  ...eachText(text => ({ field: text, cleared: null })),
  'allow-cidr': { field: 'allowedCidrs', cleared: [] },
  plan: { field: 'plan', cleared: null },
}
const CLEARABLE_NAMES = Object.keys(CLEARABLE)

/** `--clear description --clear allow-cidr` */
export function clearOption(): Option {
  const texts = TEXT_NAMES.map(text => `the ${text}, `).join('')
  const option = new Option('--clear <field>', `remove ${texts}the limit to networks or the plan`)
  return option.choices(CLEARABLE_NAMES).argParser((text: string, before: readonly string[] = []) => {
    if (!CLEARABLE_NAMES.includes(text)) {
      throw new InvalidArgumentError(`It must be ${CLEARABLE_NAMES.join(' or ')}.`)
    }
    return [...before, text]
  })
}

/** The fields that were given, and those to remove. @throws CliError for one that is both */
export function changedFields(
  options: FieldOptions & { readonly clear?: readonly string[] },
): Record<string, unknown> {
  const fields = givenFields(options)
  for (const name of options.clear ?? []) {
    const { field, cleared } = CLEARABLE[name] ?? { field: name, cleared: null }
    if (fields[field] !== undefined && fields[field] !== cleared) {
      throw new CliError(`--${name} and --clear ${name} exclude each other`, EXIT.usage)
    }
    fields[field] = cleared
  }
  return fields
}

/** The options of `edit` for these fields, for an error text. */
export const FIELD_FLAGS = ['--name', ...CLEARABLE_NAMES.map(name => `--${name}`)]

/** The fields of a key in words, by what they are called; null for a text that it does not have. */
export function textFacts(key: ShownKey): [label: string, text: string | null][] {
  return TEXT_NAMES.map(name => {
    const text = key[name]
    return [KEY_TEXTS[name].label, text == null ? null : plainText(text)]
  })
}

export function restrictionFacts({ allowedCidrs = [], plan }: ShownKey): [label: string, text: string][] {
  const networks = allowedCidrs.length === 0 ? 'any' : allowedCidrs.map(plainText).join(' ')
  const facts: [label: string, text: string][] = [['Allowed networks', networks]]
  return plan == null ? facts : [...facts, ['Plan', plainText(plan)]]
}
