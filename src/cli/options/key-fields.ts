import { type Command, InvalidArgumentError, Option } from 'commander'
import { normalizeCidrs } from '../../domain/form/address.ts'
import type { ChosenField, Restriction } from '../../domain/key/key-fields.ts'
import { eachText, KEY_TEXTS, TEXT_NAMES, type TextName } from '../../domain/key/key-texts.ts'
import { plainText, usageError } from '../cli.ts'
import type { ShownKey } from '../client/client.ts'

/** What options say of the fields of a key that people choose. */
export interface FieldOptions extends GivenTexts {
  readonly name?: string
  readonly allowCidr?: readonly string[]
  readonly plan?: string
}
type GivenTexts = { readonly [Name in TextName]?: string }

/** The options of fields that decide: their names without the dashes, and what `--clear` removes. */
const RESTRICTIONS: Readonly<Record<Restriction, RestrictionOption>> = {
  allowedCidrs: { name: 'allow-cidr', make: allowCidrOption, what: 'the limit to networks', cleared: [] },
  plan: {
    name: 'plan',
    make: () => new Option('--plan <name>', 'the plan whose rate limits hold for the key'),
    what: 'the plan',
    cleared: null,
  },
}
interface RestrictionOption {
  readonly name: string
  readonly make: () => Option
  readonly what: string
  /** The value in the admin API that removes it. */
  readonly cleared: null | readonly []
}

/** @param name what `--name` means to this command */
export function addFieldOptions(command: Command, name: string): Command {
  command.option('--name <name>', name)
  for (const text of TEXT_NAMES) command.option(`--${text} <text>`, KEY_TEXTS[text].help)
  for (const { make } of Object.values(RESTRICTIONS)) command.addOption(make())
  return command
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

/** What can be removed: the name of its option, and its field in the admin API. */
const CLEARABLE = [
  ...TEXT_NAMES.map(text => ({ name: text, field: text, what: `the ${text}`, cleared: null })),
  ...Object.entries(RESTRICTIONS).map(([field, option]) => ({ field, ...option })),
]
const CLEARABLE_NAMES = CLEARABLE.map(({ name }): string => name)
const DISJUNCTION = new Intl.ListFormat('en-GB', { type: 'disjunction' })

/** `--clear description --clear allow-cidr` */
export function clearOption(): Option {
  const all = DISJUNCTION.format(CLEARABLE.map(({ what }) => what))
  const option = new Option('--clear <field>', `remove ${all}`)
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
  const removed = CLEARABLE.filter(({ name }) => options.clear?.includes(name))
  for (const { name, field, cleared } of removed) {
    if (fields[field] !== undefined && fields[field] !== cleared) {
      throw usageError(`--${name} and --clear ${name} exclude each other`)
    }
    fields[field] = cleared
  }
  return fields
}

/** What `edit` changes, for its help. */
export const EDITED = DISJUNCTION.format(['the name', 'the expiry', ...CLEARABLE.map(({ what }) => what)])

/** The options of `edit` for these fields, for an error text. */
export const FIELD_FLAGS = ['--name', ...CLEARABLE_NAMES.map(name => `--${name}`)]

type LabelledText = [label: string, text: string | null]

/** The fields of a key in words, by what they are called; null for a text that it does not have. */
export function textFacts(key: ShownKey): LabelledText[] {
  return TEXT_NAMES.map(name => {
    const text = key[name]
    return [KEY_TEXTS[name].label, text == null ? null : plainText(text)]
  })
}

/** The same of fields that decide. */
export function restrictionFacts({ allowedCidrs = [], plan }: ShownKey): LabelledText[] {
  const networks = allowedCidrs.length === 0 ? 'any' : allowedCidrs.map(plainText).join(' ')
  const facts: Readonly<Record<Restriction, LabelledText>> = {
    allowedCidrs: ['Allowed networks', networks],
    plan: ['Plan', plan == null ? null : plainText(plan)],
  }
  return Object.values(facts)
}
