// SPDX-License-Identifier: Apache-2.0

package gormfence

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// Plugin guards models. Install it once with db.Use.
type Plugin struct {
	models []Fenced
	tables map[reflect.Type]string // of the models, in lower case
}

// New returns a plugin that guards the tables of the models. List every model that has a field of
// type Token: the plugin rejects an update of one that is not listed, and an update of
// these tables through any other model.
func New(models ...Fenced) *Plugin { return &Plugin{models: models, tables: map[reflect.Type]string{}} }

// Name implements gorm.Plugin.
func (p *Plugin) Name() string { return "fencelock:fence" }

// Initialize implements gorm.Plugin. It returns an error if a model has no field of type Token.
func (p *Plugin) Initialize(db *gorm.DB) error {
	if len(p.models) == 0 {
		return errors.New("gormfence: New without models guards nothing; list the models that have a field of type gormfence.Token")
	}
	for _, m := range p.models {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(m); err != nil {
			return fmt.Errorf("gormfence: %T: %w", m, err)
		}
		if tokenField(stmt.Schema) == nil {
			return fmt.Errorf("gormfence: %T has no field of type gormfence.Token", m)
		}
		if len(stmt.Schema.PrimaryFields) == 0 {
			return fmt.Errorf("gormfence: %T has no primary key", m)
		}
		p.tables[stmt.Schema.ModelType] = strings.ToLower(stmt.Schema.Table)
	}
	c := db.Callback()
	// The places are given by what comes next: GORM puts what comes "after" a callback at the
	// very end, where the transaction is committed already.
	return errors.Join(
		c.Create().Before("gorm:create").Register("fencelock:create", p.create),
		c.Update().Before("gorm:save_before_associations").Register("fencelock:check_update", p.check),
		c.Update().Before("gorm:update").Register("fencelock:update", p.update),
		c.Update().Before("gorm:save_after_associations").Register("fencelock:updated", p.done),
		c.Delete().Before("gorm:delete_before_associations").Register("fencelock:check_delete", p.check),
		c.Delete().Before("gorm:delete").Register("fencelock:delete", p.remove),
		c.Delete().Before("gorm:after_delete").Register("fencelock:deleted", p.done),
	)
}

// guarded is a statement on one guarded row.
type guarded struct {
	field *schema.Field // of the fence
	mark  fence.Mark
	row   reflect.Value       // the model
	key   []clause.Expression // of the row
	ready bool                // the statement has the condition on the fence
}

const settings = "fencelock:guarded"

// guardOf returns the guard of the statement that is being run, or nil.
func guardOf(db *gorm.DB) *guarded {
	v, _ := db.InstanceGet(settings)
	g, _ := v.(*guarded)
	return g
}

// fenced reports whether a statement writes to a table with fences.
func (p *Plugin) fenced(stmt *gorm.Statement) bool {
	return stmt.Schema != nil && (tokenField(stmt.Schema) != nil || len(p.among(stmt.Schema.Table)) > 0) || len(p.among(written(stmt)...)) > 0
}

// among returns those of the tables with fences that are among the given names.
func (p *Plugin) among(given ...string) (tables []string) {
	for _, name := range given {
		for _, table := range p.tables {
			if names(strings.ToLower(name), table) {
				tables = append(tables, table)
			}
		}
	}
	return tables
}

// names reports whether a name is that of a table. A table that was listed without a
// schema may be in any.
func names(name, table string) bool {
	if !strings.Contains(table, ".") {
		name = name[strings.LastIndex(name, ".")+1:]
	}
	return name == table
}

// written returns the names that a statement has in the place of its table.
func written(stmt *gorm.Statement) (all []string) {
	if stmt.TableExpr == nil {
		all = []string{stmt.Table}
	} else {
		all = words(*stmt.TableExpr) // Table("sales.orders AS o")
	}
	var tables []clause.Table
	for _, c := range stmt.Clauses { // Clauses(clause.Update{Table: …})
		switch e := c.Expression.(type) {
		case clause.Update:
			tables = append(tables, e.Table)
		case clause.Insert:
			tables = append(tables, e.Table)
		case clause.From:
			if slices.Contains(stmt.BuildClauses, "DELETE") { // elsewhere it is what a statement reads
				tables = append(tables, e.Tables...)
			}
		}
	}
	for _, t := range tables {
		all = append(all, words(clause.Expr{SQL: t.Name})...)
	}
	return all
}

// words returns the names in the place of a table.
func words(e clause.Expr) []string {
	all := strings.FieldsFunc(unquoted.Replace(e.SQL), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;()", r) })
	for _, v := range e.Vars {
		switch v := v.(type) {
		case clause.Table:
			all = append(all, v.Name)
		case clause.Expr:
			all = append(all, words(v)...)
		}
	}
	return all
}

var unquoted = strings.NewReplacer("`", "", `"`, "")

// check finds the row and the token of an update or a delete, before anything is written.
func (p *Plugin) check(db *gorm.DB) {
	db.InstanceSet(settings, (*guarded)(nil)) // a statement may run again
	if db.Error != nil || !p.fenced(db.Statement) {
		return
	}
	g, err := p.find(db.Statement)
	if err != nil {
		_ = db.AddError(err)
		return
	}
	db.InstanceSet(settings, g)
}

// find returns the guard of a statement that writes to a table with fences.
func (p *Plugin) find(stmt *gorm.Statement) (*guarded, error) {
	if stmt.Schema == nil || tokenField(stmt.Schema) == nil {
		return nil, unguarded("the table %s is written through something without a gormfence.Token; use the model that was given to gormfence.New", stmt.Table)
	}
	own, listed := p.tables[stmt.Schema.ModelType]
	if !listed {
		return nil, unguarded("%s is not listed in gormfence.New, which needs its method FenceLock() string", stmt.Schema.Name)
	}
	for _, table := range p.among(written(stmt)...) {
		if table != own { // its rows may have other locks
			return nil, unguarded("the table %s is written through %s; use the model that was given to gormfence.New", table, stmt.Schema.Name)
		}
	}
	g := &guarded{field: tokenField(stmt.Schema)}
	for _, v := range []reflect.Value{stmt.ReflectValue, reflect.Indirect(reflect.ValueOf(stmt.Model))} {
		if key := keyOf(stmt, v); key != nil {
			g.row, g.key = v, key
			break
		}
	}
	if g.key == nil {
		return nil, unguarded("it does not name one row of %s; put the primary key into the model, as in db.Model(&%s{ID: 42}), or use a gormfence.Table",
			stmt.Table, stmt.Schema.Name)
	}
	model, _ := modelOf(g.row) // one that is listed has the method
	var err error
	g.mark, err = fence.FromContext(stmt.Context, model.FenceLock())
	return g, err
}

// keyOf returns the conditions for the primary key of a model, nil if it is not complete.
func keyOf(stmt *gorm.Statement, v reflect.Value) (key []clause.Expression) {
	if !v.IsValid() || v.Type() != stmt.Schema.ModelType {
		return nil
	}
	for _, f := range stmt.Schema.PrimaryFields {
		value, zero := f.ValueOf(stmt.Context, v)
		if zero {
			return nil
		}
		key = append(key, clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: f.DBName}, Value: value})
	}
	return key
}

// modelOf returns the model with its method, which may have a pointer receiver.
func modelOf(v reflect.Value) (Fenced, bool) {
	if m, ok := v.Interface().(Fenced); ok {
		return m, true
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	m, ok := p.Interface().(Fenced)
	return m, ok
}

// update adds the fence to an update, right before GORM builds it.
func (p *Plugin) update(db *gorm.DB) {
	g, stmt := guardOf(db), db.Statement
	if db.Error != nil || g == nil {
		return
	}
	for _, c := range stmt.Schema.UpdateClauses { // of other fields, such as an optimistic lock; GORM adds them below again
		stmt.AddClause(c)
	}
	set, given := stmt.Clauses["SET"].Expression.(clause.Set)
	if !given {
		set = callbacks.ConvertToAssignments(stmt)
	}
	if len(set) == 0 {
		return // GORM sends nothing either
	}
	if g.moves(stmt, set) {
		_ = db.AddError(unguarded("it gives a row of %s another primary key, which may be that of another lock; create a row, and delete this one", stmt.Table))
		return
	}
	own := clause.Set{{Column: clause.Column{Name: g.field.DBName}, Value: int64(g.mark.Token)}}
	for _, a := range set {
		if a.Column.Name != g.field.DBName { // the guard alone writes the fence
			own = append(own, a)
		}
	}
	stmt.AddClause(own)
	g.restrict(stmt)
}

// moves reports whether an update changes the primary key.
func (g *guarded) moves(stmt *gorm.Statement, set clause.Set) bool {
	for _, a := range set {
		for i, f := range stmt.Schema.PrimaryFields {
			if a.Column.Name != f.DBName {
				continue
			}
			key := g.key[i].(clause.Eq).Value
			to := reflect.New(stmt.Schema.ModelType).Elem()
			err := f.Set(stmt.Context, to, a.Value)
			if v, _ := f.ValueOf(stmt.Context, to); err == nil && reflect.DeepEqual(v, key) {
				continue
			}
			if g.row.CanAddr() {
				_ = f.Set(stmt.Context, g.row, key) // GORM has set it
			}
			return true
		}
	}
	return false
}

// restrict adds the key and the condition on the fence to what the statement has. GORM itself
// would write a OR b AND id = 42, and would not put parentheses around an OR between line
// breaks; so all of it goes into parentheses here.
func (g *guarded) restrict(stmt *gorm.Statement) {
	c := stmt.Clauses["WHERE"]
	where, _ := c.Expression.(clause.Where)
	var all []clause.Expression
	if len(where.Exprs) > 0 {
		all = append(all, parentheses{where})
	}
	all = append(append(all, g.key...), clause.Expr{SQL: "COALESCE(?, 0) <= ?",
		Vars: []any{clause.Column{Table: clause.CurrentTable, Name: g.field.DBName}, int64(g.mark.Token)}})
	c.Name, c.Expression = where.Name(), clause.Where{Exprs: all}
	stmt.Clauses["WHERE"] = c
	g.ready = true
}

// parentheses are conditions as one condition.
type parentheses struct{ where clause.Where }

// Build implements clause.Expression.
func (p parentheses) Build(b clause.Builder) {
	_ = b.WriteByte('(')
	p.where.Build(b)
	_ = b.WriteByte(')')
}

// remove adds the fence to a delete. A delete that sets a column, as DeletedAt makes it, sets
// nothing else; so the fence is raised first, and the delete has the condition as well.
func (p *Plugin) remove(db *gorm.DB) {
	g, stmt := guardOf(db), db.Statement
	if db.Error != nil || g == nil {
		return
	}
	if softly(stmt) && !db.DryRun {
		if err := raise(db, g); err != nil {
			_ = db.AddError(err)
			return
		}
	}
	g.restrict(stmt)
}

// softly reports whether the row stays.
func softly(stmt *gorm.Statement) bool {
	for _, c := range stmt.Schema.DeleteClauses {
		if _, ours := c.(demand); !ours && !stmt.Unscoped {
			return true
		}
	}
	return false
}

// raise raises the fence of the row of a statement by an update of its own.
func raise(db *gorm.DB, g *guarded) error {
	model := reflect.New(g.row.Type())
	model.Elem().Set(g.row)
	return sameAs(db.Statement, db.Session(&gorm.Session{NewDB: true})).Model(model.Interface()).UpdateColumn(g.field.DBName, int64(g.mark.Token)).Error
}

// sameAs makes a statement for the table of another.
func sameAs(stmt *gorm.Statement, db *gorm.DB) *gorm.DB {
	if stmt.Table == "" && stmt.TableExpr == nil {
		return db
	}
	tx := db.Table(stmt.Table)
	tx.Statement.TableExpr = stmt.TableExpr
	return tx
}

// create stops upserts, and gives new rows the token that the context carries. A row may be
// created without a lock: no other holder knows it yet.
func (p *Plugin) create(db *gorm.DB) {
	stmt := db.Statement
	if db.Error != nil || !p.fenced(stmt) {
		return
	}
	if c, ok := stmt.Clauses["ON CONFLICT"].Expression.(clause.OnConflict); ok && (!c.DoNothing || c.UpdateAll || len(c.DoUpdates) > 0) {
		_ = db.AddError(unguarded("an upsert may change a row of %s; create it or update it, and leave it out of the row that it comes with: Omit(clause.Associations)", stmt.Table))
		return
	}
	if stmt.Schema == nil || tokenField(stmt.Schema) == nil {
		return
	}
	set := func(v reflect.Value) {
		v = reflect.Indirect(v)
		if v.Type() != stmt.Schema.ModelType || !v.CanAddr() {
			return
		}
		token := int64(0)
		if model, ok := modelOf(v); ok && keyOf(stmt, v) != nil {
			if m, err := fence.FromContext(stmt.Context, model.FenceLock()); err == nil {
				token = int64(m.Token)
			}
		}
		_ = db.AddError(tokenField(stmt.Schema).Set(stmt.Context, v, token))
	}
	switch stmt.ReflectValue.Kind() {
	case reflect.Struct:
		set(stmt.ReflectValue)
	case reflect.Slice, reflect.Array:
		for i := range stmt.ReflectValue.Len() {
			set(stmt.ReflectValue.Index(i))
		}
	}
}

// done looks at what became of a guarded statement, inside of its transaction.
func (p *Plugin) done(db *gorm.DB) {
	g := guardOf(db)
	if g == nil || !g.ready {
		return
	}
	delete(db.Statement.Clauses, "SET") // as GORM does with its own
	if db.Error != nil || db.DryRun {
		return
	}
	if db.RowsAffected > 1 {
		_ = db.AddError(fmt.Errorf("gormfence: %d rows of %s have one primary key and were changed", db.RowsAffected, db.Statement.Table))
		return
	}
	if db.RowsAffected == 0 {
		found, err := g.why(db)
		if db.AddError(err) != nil {
			return
		}
		if !found {
			return // a condition did not hold
		}
		db.RowsAffected = 1
	}
	if g.row.CanAddr() {
		_ = db.AddError(g.field.Set(db.Statement.Context, g.row, int64(g.mark.Token)))
	}
}

// why tells the reasons for which no row was changed apart: a newer token, no row, or a
// condition that did not hold, of the caller's or of a row that is deleted softly. MySQL counts rows
// that were changed, so an update with the values and the token of before counts none; then found is true.
//
// The read locks the row: at REPEATABLE READ a plain read could show an older fence than the
// one that the statement met.
func (g *guarded) why(db *gorm.DB) (found bool, err error) {
	var kept struct {
		Fence *int64 `gorm:"column:fence"`
		Met   bool   `gorm:"column:met"`
	}
	tx := sameAs(db.Statement, db.Session(&gorm.Session{NewDB: true}))
	column := clause.Column{Name: g.field.DBName}
	if where, ok := db.Statement.Clauses["WHERE"].Expression.(clause.Where); ok && db.Dialector.Name() == "mysql" {
		tx = tx.Select("? AS fence, ? AS met", column, parentheses{where})
	} else {
		tx = tx.Select("? AS fence", column)
	}
	tx = tx.Clauses(clause.Locking{Strength: "UPDATE"}, clause.Where{Exprs: g.key}).Scan(&kept)
	switch {
	case tx.Error != nil:
		return false, fmt.Errorf("gormfence: no row was changed; the reason is unknown: %w", tx.Error)
	case tx.RowsAffected == 0:
		return false, fmt.Errorf("gormfence: %s has no such row: %w", db.Statement.Table, gorm.ErrRecordNotFound)
	case kept.Fence == nil:
		return false, nil
	}
	newer := fence.Mark{Lock: g.mark.Lock, Token: fencelock.Token(*kept.Fence)}
	if err := fence.Check(newer, g.mark); err != nil {
		return false, err
	}
	return newer.Token == g.mark.Token && kept.Met, nil
}
