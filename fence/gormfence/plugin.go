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
	tables map[reflect.Type]string // of the models, in lower case and without quotes
}

// New returns a plugin that guards the tables of the models. List every model that has a field of
// type Token: the plugin rejects an update of one that is not listed, and an update of
// these tables through any other model.
func New(models ...Fenced) *Plugin { return &Plugin{models: models} }

// Name implements gorm.Plugin.
func (p *Plugin) Name() string { return "fencelock:fence" }

// Initialize implements gorm.Plugin. It returns an error if a model has no field of type Token, or
// one that GORM may not write.
func (p *Plugin) Initialize(db *gorm.DB) error {
	if len(p.models) == 0 {
		return errors.New("gormfence: New without models guards nothing; list the models that have a field of type gormfence.Token")
	}
	p = &Plugin{p.models, map[reflect.Type]string{}} // another database may name the tables in another way
	for _, m := range p.models {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(m); err != nil {
			return fmt.Errorf("gormfence: %T: %w", m, err)
		}
		field := tokenField(stmt.Schema)
		if field == nil {
			return fmt.Errorf("gormfence: %T has no field of type gormfence.Token", m)
		}
		if !field.Creatable {
			return fmt.Errorf("gormfence: GORM may not write its field %s into new rows of %T; change its tag", field.Name, m)
		}
		if len(stmt.Schema.PrimaryFields) == 0 {
			return fmt.Errorf("gormfence: %T has no primary key", m)
		}
		p.tables[stmt.Schema.ModelType] = plain(stmt.Schema.Table)
	}
	c := db.Callback()
	return errors.Join(
		c.Update().Before("gorm:save_before_associations").Register("fencelock:check_update", p.check),
		c.Delete().Before("gorm:delete_before_associations").Register("fencelock:check_delete", p.check),
		around(c.Create(), "gorm:create", p.create),
		around(c.Update(), "gorm:update", p.update),
		around(c.Delete(), "gorm:delete", p.remove),
	)
}

// around puts a function around a callback of GORM. A callback of our own before that one would not be
// next to it: what other plugins register there later comes in between, and the columns that they set
// would be lost, and the conditions with OR that they add would come behind the fence.
func around(c interface {
	Get(name string) func(*gorm.DB)
	Replace(name string, f func(*gorm.DB)) error
}, name string, f func(db *gorm.DB, send func(*gorm.DB)),
) error {
	send := c.Get(name)
	if send == nil {
		return fmt.Errorf("gormfence: the callback %s is not there, so nothing can be guarded", name)
	}
	return c.Replace(name, func(db *gorm.DB) { f(db, send) })
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
			if names(plain(name), table) {
				tables = append(tables, table)
			}
		}
	}
	return tables
}

// names reports whether a name may be that of a table. One without a schema may be in any: the
// connection decides, by its search path or its database.
func names(name, table string) bool {
	return name == table || strings.HasSuffix(name, "."+table) || strings.HasSuffix(table, "."+name)
}

// written returns the names that a statement has in the place of its table.
func written(stmt *gorm.Statement) (all []string) {
	if stmt.TableExpr == nil {
		all = words(clause.Expr{SQL: stmt.Table})
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
				tables = append(append(tables, e.Tables...), deleted(stmt, e.Joins)...)
			}
		}
	}
	for _, t := range tables {
		all = append(all, words(clause.Expr{SQL: t.Name})...)
	}
	return all
}

// deleted returns those of the joined tables that a delete names: DELETE o FROM lines JOIN orders AS o.
func deleted(stmt *gorm.Statement, joins []clause.Join) (tables []clause.Table) {
	d, _ := stmt.Clauses["DELETE"].Expression.(clause.Delete)
	for _, name := range words(clause.Expr{SQL: d.Modifier}) {
		for _, j := range joins {
			if strings.EqualFold(name, j.Table.Name) || strings.EqualFold(name, j.Table.Alias) {
				tables = append(tables, j.Table)
			}
		}
	}
	return tables
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

// plain returns a name for comparing.
func plain(name string) string { return strings.ToLower(unquoted.Replace(name)) }

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
	if err := text(stmt); err != nil {
		return nil, err
	}
	if stmt.Schema == nil || tokenField(stmt.Schema) == nil {
		return nil, unguarded("the table %s is written through something without a gormfence.Token; use the model that was given to gormfence.New; if it is another table, name its schema", stmt.Table)
	}
	own, listed := p.tables[stmt.Schema.ModelType]
	if !listed {
		return nil, unguarded("%s is not listed in gormfence.New, which needs its method FenceLock() string", stmt.Schema.Name)
	}
	for _, table := range p.among(slices.DeleteFunc(written(stmt), func(name string) bool { return plain(name) == own })...) {
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
		return nil, unguarded("it does not name one row of %s; put the primary key into the model, as in db.Model(&%s{ID: 42}); for several rows, call gormfence.Enter for each in a transaction, and Exec there",
			stmt.Table, stmt.Schema.Name)
	}
	model, _ := modelOf(g.row) // one that is listed has the method
	var err error
	g.mark, err = fence.FromContext(stmt.Context, model.FenceLock())
	return g, err
}

// text rejects SQL that is there already, as after Raw: GORM would send it as it is.
func text(stmt *gorm.Statement) error {
	if stmt.SQL.Len() == 0 || stmt.DB.DryRun {
		return nil
	}
	return unguarded("it has SQL as text for %s; send that with Exec, in the transaction in which gormfence.Enter was called", stmt.Table)
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

// update adds the fence to an update, and sends it.
func (p *Plugin) update(db *gorm.DB, send func(*gorm.DB)) {
	g := guardOf(db)
	if db.Error != nil || g == nil {
		send(db)
		return
	}
	if err := g.assign(db.Statement); err != nil {
		_ = db.AddError(err)
		return
	}
	keep(db.Statement, "SET")
	where := keep(db.Statement, "WHERE")
	send(db)
	db.Statement.Clauses["WHERE"] = where // the statement may run again
	p.done(db)
}

// assign gives an update its assignments and conditions. One that sets no column raises the
// fence as well: GORM would not send it, but it saves what belongs to the row, in other tables.
func (g *guarded) assign(stmt *gorm.Statement) error {
	for _, c := range stmt.Schema.UpdateClauses { // of other fields, such as an optimistic lock
		if _, ours := c.(demand); !ours {
			stmt.AddClause(c)
		}
	}
	set, given := stmt.Clauses["SET"].Expression.(clause.Set)
	if !given {
		set = callbacks.ConvertToAssignments(stmt)
	}
	if g.moves(stmt, set) {
		return unguarded("it gives a row of %s another primary key, which may be that of another lock; create a row, and delete this one", stmt.Table)
	}
	own := clause.Set{{Column: clause.Column{Name: g.field.DBName}, Value: int64(g.mark.Token)}}
	for _, a := range set {
		if !isColumn(a.Column.Name, g.field) { // the guard alone writes the fence
			own = append(own, a)
		}
	}
	stmt.AddClause(own)
	g.restrict(stmt)
	return nil
}

// keep makes a clause stay as it is, and returns it: GORM adds the clauses of the fields once more
// when it sends the update, and a condition with OR would then come behind the fence.
func keep(stmt *gorm.Statement, name string) clause.Clause {
	kept := stmt.Clauses[name]
	c := kept
	c.Builder = func(_ clause.Clause, b clause.Builder) { kept.Build(b) }
	stmt.Clauses[name] = c
	return kept
}

// isColumn reports whether a database takes a name for the column of a field: MySQL takes
// orders.fence and FENCE, too.
func isColumn(name string, f *schema.Field) bool {
	if own := f.Schema.FieldsByDBName[name]; own != nil {
		return own == f
	}
	name = unquoted.Replace(name)
	return strings.EqualFold(name[strings.LastIndexByte(name, '.')+1:], f.DBName)
}

// moves reports whether an update changes the primary key.
func (g *guarded) moves(stmt *gorm.Statement, set clause.Set) bool {
	for _, a := range set {
		for i, f := range stmt.Schema.PrimaryFields {
			if !isColumn(a.Column.Name, f) {
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

// remove adds the fence to a delete, and sends it. A delete that sets a column, as DeletedAt makes it, sets
// nothing else; so the fence is raised first, and the delete has the condition as well.
func (p *Plugin) remove(db *gorm.DB, send func(*gorm.DB)) {
	g, stmt := guardOf(db), db.Statement
	if db.Error != nil || g == nil {
		send(db)
		return
	}
	if softly(stmt) && !db.DryRun {
		if err := raise(db, g); err != nil {
			_ = db.AddError(err)
			return
		}
	}
	g.restrict(stmt)
	send(db)
	p.done(db)
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
	return raising(db.Statement, db, model.Interface()).UpdateColumn(g.field.DBName, 0).Error // the guard puts the token there
}

// raising makes a statement that raises the fence of a row, where another statement has the row. It
// leaves alone what the row was read with: that may be deleted since, and GORM would save it again.
func raising(stmt *gorm.Statement, db *gorm.DB, row any) *gorm.DB {
	return sameAs(stmt, db.Session(&gorm.Session{NewDB: true})).Model(row).Omit(clause.Associations)
}

// sameAs makes a statement for the table of another.
func sameAs(stmt *gorm.Statement, db *gorm.DB) *gorm.DB {
	if stmt.Table == "" && stmt.TableExpr == nil {
		return db
	}
	tx := db.Table(stmt.Table)
	tx.Statement.Table, tx.Statement.TableExpr = stmt.Table, stmt.TableExpr // Table finds no name in quotes
	return tx
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
