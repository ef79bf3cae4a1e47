/** The part of JSON Schema (draft 2020-12) that the OpenAPI document uses. */

type JsonSchemaType = 'string' | 'boolean' | 'integer' | 'number' | 'array' | 'object' | 'null';

export interface JsonSchema {
  readonly type?: JsonSchemaType | readonly JsonSchemaType[];
  readonly title?: string;
  readonly description?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | false;
  readonly maxProperties?: number;
}
