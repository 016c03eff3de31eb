// TypeScript types of everything that a node answers, made from the OpenRPC document that it serves as `rpc_discover`.
//
// The schemas become types of the same names; each method becomes a member of `Methods` with its parameters, labelled, and its result.
// `npm run types` writes viem/src/rpc.ts; a test looks that it is what a node's document gives.

import { compile } from 'json-schema-to-typescript';

const HEADER = `// Made from the document that a node serves as rpc_discover: \`npm run types\` in sdk/js.
/* eslint-disable */`;

const FOOTER = `/** The parameters of a method and its result, for a function of your own: \`call<M extends Method>(method: M, ...parameters: Methods[M]['parameters'])\`. */
export type Method = keyof Methods;

/** The same as viem takes it: \`createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), … })\`. */
export type RpcSchema = { [M in Method]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] } }[Method][];`;

const REFERENCE = '#/components/schemas/';

/** The file's text. */
export async function typesOf({ methods, components }) {
  const definitions = Object.fromEntries(Object.entries(components.schemas).map(([name, schema]) => [name, prepared(schema)]));
  const names = Object.keys(definitions);
  const properties = Object.fromEntries(names.map((name) => [name, { $ref: `#/$defs/${name}` }]));
  const whole = { $defs: definitions, description: 'Every type by its name.', type: 'object', properties, required: names };
  const schemas = await compile(whole, 'Types', { bannerComment: HEADER, additionalProperties: false, style: { printWidth: 140, singleQuote: true } });
  const members = methods.map(({ name, summary, params, result }) => {
    const parameters = params.map((param) => `${param.name}${param.required ? '' : '?'}: ${typeOf(param.schema)}`);
    return `  /** ${summary} */\n  ${name}: { parameters: [${parameters.join(', ')}]; result: ${typeOf(result.schema)} };`;
  });
  return `${schemas.trim()}\n\n/** Every method by its name. */\nexport interface Methods {\n${members.join('\n')}\n}\n\n${FOOTER}\n`;
}

/** What parameters and results are made of: names of schemas, arrays of them, null, and alternatives. */
function typeOf(schema) {
  if (schema.$ref) return schema.$ref.slice(REFERENCE.length);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
  if (schema.type === 'array') return `${typeOf(schema.items)}[]`;
  if (schema.type === 'null') return 'null';
  throw new Error(`no type is known for ${JSON.stringify(schema)}`);
}

/** A schema as the library takes it, all the way down. */
function prepared(schema) {
  if (Array.isArray(schema)) return schema.map(prepared);
  if (schema === null || typeof schema !== 'object') return schema;
  const { $ref, pattern, allOf, anyOf, ...rest } = schema;
  const one = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, prepared(value)]));
  if ($ref) one.$ref = $ref.replace(REFERENCE, '#/$defs/');
  // Every pattern there is begins with 0x; the rest is nothing that a type can say.
  if (pattern) one.tsType = '`0x${string}`';
  // Both at once would be two types of one name.
  if (allOf && anyOf) one.allOf = prepared([...allOf, { anyOf }]);
  else if (allOf ?? anyOf) one[allOf ? 'allOf' : 'anyOf'] = prepared(allOf ?? anyOf);
  return one;
}
